"""Pictures of every format, for a Python that has nothing but the wheel.

    python every_format.py PICTURE...

prepares each with openfm, writes what a model would get to PICTURE.prepared, and prints
{PICTURE: [width, height] or "ErrorClass: message"}. The functions are for a Python that has Pillow:
they make such pictures and look at what came out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SIZE = (96, 64)
CORNERS = {
    (24, 16): (220, 40, 40),
    (72, 16): (40, 160, 60),
    (24, 48): (50, 70, 210),
    (72, 48): (240, 210, 60),
}
FORMATS = ("jpeg", "png", "webp", "gif", "bmp", "heic", "avif")


def make(folder: Path) -> dict[str, Path]:
    """One picture a format, with a colour in each quarter. Needs Pillow and heif-enc."""
    from PIL import Image

    image = Image.new("RGB", SIZE)
    for (x, y), colour in CORNERS.items():
        image.paste(colour, (x - 24, y - 16, x + 24, y + 16))
    paths = {name: folder / f"corners.{name}" for name in FORMATS}
    for name in FORMATS[:5]:
        image.save(paths[name], name, **({"quality": 95} if name in ("jpeg", "webp") else {}))
    for name, option in (("heic", []), ("avif", ["-A"])):
        command = ["heif-enc", "-q", "95", *option, "-o", str(paths[name]), str(paths["png"])]
        subprocess.run(command, check=True, capture_output=True)
    return paths


def wrong(picture: Path) -> str:
    """What is wrong with the prepared picture, by Pillow's eyes; nothing where it is right."""
    from PIL import Image

    prepared = picture.with_name(f"{picture.name}.prepared")
    if not prepared.exists():
        return "it was not prepared"
    with Image.open(prepared) as image:
        if image.size != SIZE:
            return f"its size is {image.size}"
        for place, colour in CORNERS.items():
            found = image.convert("RGB").getpixel(place)
            if max(abs(a - b) for a, b in zip(found, colour, strict=True)) > 24:
                return f"at {place} it is {found}, not {colour}"
    return ""


def main(names: list[str]) -> None:
    import openfm as fm

    told: dict[str, object] = {}
    for name in names:
        try:
            picture = fm.prepare_image(name)
        except fm.FoundationModelsError as error:
            told[name] = f"{type(error).__name__}: {error}"
        else:
            Path(f"{name}.prepared").write_bytes(picture.data)
            told[name] = [picture.width, picture.height]
    print(json.dumps({"pictures": told, "formats": fm.build_info()["image_formats"]}))


if __name__ == "__main__":
    main(sys.argv[1:])
