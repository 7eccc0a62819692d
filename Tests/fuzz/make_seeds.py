"""Writes the seeds of the fuzz targets: small pictures of every form, whole and in part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import icc
from pictures import encoded, exif, iccp, natural, tiff, with_png_chunks

FOLDER = Path(sys.argv[1])


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    small, odd = natural(24, 16), natural(17, 9)
    clear = odd.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(odd.size))
    profile = icc.display_p3()
    seeds = {
        "jpeg": encoded(small, "JPEG", exif=exif(6), quality=60),
        "jpeg-progressive": encoded(odd, "JPEG", progressive=True, subsampling="4:4:4"),
        "jpeg-gray": encoded(odd.convert("L"), "JPEG", icc_profile=icc.gray_profile(1.8)),
        "jpeg-profile": encoded(small, "JPEG", icc_profile=profile, subsampling="4:2:2"),
        "jpeg-inks": encoded(odd.convert("CMYK"), "JPEG"),
        "jpeg-restarts": encoded(small, "JPEG", restart_marker_blocks=1),
        "png": encoded(odd, "PNG", exif=tiff(3)),
        "png-alpha": with_png_chunks(encoded(clear, "PNG"), iccp(profile)),
        "png-palette": encoded(odd.quantize(7), "PNG", transparency=3),
        "png-gray16": encoded(odd.convert("I;16"), "PNG"),
        "png-bits": encoded(odd.convert("1"), "PNG"),
        "webp-lossy": encoded(small, "WEBP", exif=tiff(8), icc_profile=profile),
        "webp-lossless": encoded(odd, "WEBP", lossless=True),
        "webp-alpha": encoded(clear, "WEBP", quality=50),
        "webp-animated": encoded(small, "WEBP", save_all=True, append_images=[natural(24, 16, 2)]),
        "gif": encoded(odd.quantize(16), "GIF"),
        "gif-interlaced": encoded(small.quantize(64), "GIF", interlace=1),
        "gif-animated": encoded(
            odd.quantize(8), "GIF", save_all=True, append_images=[natural(17, 9, 2).quantize(8)]
        ),
        "bmp": encoded(odd, "BMP"),
        "bmp-palette": encoded(odd.quantize(9), "BMP"),
        "bmp-alpha": encoded(clear, "BMP"),
        "profile": profile,
        "profile-gray": icc.gray_profile(2.2),
        "exif": tiff(6, big=True),
        "page": b"<!doctype html><html></html>",
    }
    for name, data in seeds.items():
        (FOLDER / name).write_bytes(data)
    # What was found once is tried first, for ever.
    for path in (Path(__file__).parent / "found").iterdir():
        (FOLDER / path.name).write_bytes(path.read_bytes())
    small.save(FOLDER / "source.ppm")
    small.save(FOLDER / "source.png")
    programs = {
        "jpeg-arithmetic": ["cjpeg", "-arithmetic", "-outfile", "{}", "source.ppm"],
        "heic": ["heif-enc", "-q", "30", "-o", "{}", "source.png"],
        "avif": ["heif-enc", "-A", "-q", "30", "-o", "{}", "source.png"],
    }
    for name, words in programs.items():
        suffix = ".avif" if name == "avif" else ".heic" if name == "heic" else ""
        command = [word.format(name + suffix) for word in words]
        try:
            subprocess.run(command, cwd=FOLDER, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            print(f"no seed {name}: {command[0]} cannot make it here", file=sys.stderr)
    for name in ("source.ppm", "source.png"):
        (FOLDER / name).unlink()


main()
