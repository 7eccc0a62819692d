"""Makes the demo's pictures: a phone photo of an arrow, and the same one without its orientation.

    python scripts/make_demo_picture.py FOLDER

writes to FOLDER
  arrow.jpg           4032x3024 as stored, EXIF orientation 6, camera data and a GPS position; to a
                      viewer an upright 3024x4032 picture of a red arrow that points up
  arrow-untagged.jpg  the same scan data and metadata, without the orientation tag: to a viewer the
                      arrow points left

The arrow is one of the world that the shapes model of models/ knows. Nothing is random: the same
versions of Pillow and numpy write the same bytes.
"""

import argparse
from pathlib import Path

import numpy
from PIL import ExifTags, Image, ImageDraw, ImageFilter, TiffImagePlugin

WIDTH, HEIGHT = 3024, 4032  # upright
RED = (214, 40, 40)


def background() -> Image.Image:
    """Light from the top left on a pale wall, darker towards the corners, as a lens draws it."""
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH].astype(numpy.float32)
    x, y = x / WIDTH, y / HEIGHT
    light = 238 - 14 * x - 18 * y - 26 * ((x - 0.5) ** 2 + (y - 0.5) ** 2)
    pixels = light[..., None] + numpy.array([2, 0, -5], numpy.float32)
    return Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))


def arrow(centre: tuple[float, float], radius: float) -> list[tuple[float, float]]:
    """An arrow that points up, within `radius` of its centre."""
    outline = [
        (0, -1),
        (0.72, -0.22),
        (0.27, -0.22),
        (0.27, 0.95),
        (-0.27, 0.95),
        (-0.27, -0.22),
        (-0.72, -0.22),
    ]
    return [(centre[0] + radius * x, centre[1] + radius * y) for x, y in outline]


def scene() -> Image.Image:
    """The upright picture: shadow, arrow, a soft edge and the grain of a sensor."""
    picture = background()
    centre, radius = (WIDTH / 2, HEIGHT / 2), WIDTH * 0.42
    shadow = Image.new("L", picture.size)
    ImageDraw.Draw(shadow).polygon(arrow((centre[0] + 30, centre[1] + 40), radius), fill=60)
    picture.paste((70, 70, 80), mask=shadow.filter(ImageFilter.BoxBlur(30)))
    ImageDraw.Draw(picture).polygon(arrow(centre, radius), fill=RED)
    picture = picture.filter(ImageFilter.BoxBlur(1))

    grain = numpy.random.default_rng(6).normal(0, 4, (HEIGHT, WIDTH, 1)).astype(numpy.float32)
    pixels = numpy.asarray(picture, numpy.float32) + grain
    return Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))


def metadata(orientation: int | None) -> Image.Exif:
    """What a phone writes, the position included: all of it must be gone from what is sent."""
    ratio = TiffImagePlugin.IFDRational
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "OpenFM"
    exif[ExifTags.Base.Model] = "Demo camera"
    exif[ExifTags.Base.DateTime] = "2026:06:21 12:00:00"
    if orientation is not None:
        exif[ExifTags.Base.Orientation] = orientation
    camera = exif.get_ifd(ExifTags.IFD.Exif)
    camera[ExifTags.Base.ExposureTime] = ratio(1, 250)
    camera[ExifTags.Base.FNumber] = ratio(18, 10)
    camera[ExifTags.Base.ISOSpeedRatings] = 64
    camera[ExifTags.Base.FocalLength] = ratio(57, 10)
    position = exif.get_ifd(ExifTags.IFD.GPSInfo)
    position[ExifTags.GPS.GPSLatitudeRef] = "N"
    position[ExifTags.GPS.GPSLatitude] = (ratio(48), ratio(51), ratio(30))
    position[ExifTags.GPS.GPSLongitudeRef] = "E"
    position[ExifTags.GPS.GPSLongitude] = (ratio(2), ratio(17), ratio(40))
    return exif


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Orientation 6 says: turn the stored pixels a quarter clockwise. They are stored turned back.
    stored = scene().transpose(Image.Transpose.ROTATE_90)
    for name, orientation in (("arrow.jpg", 6), ("arrow-untagged.jpg", None)):
        part = folder / f"{name}.part"
        stored.save(part, "JPEG", quality=88, subsampling="4:2:0", exif=metadata(orientation))
        part.rename(folder / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Makes the demo's pictures.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write them")
    main(parser.parse_args().folder)
