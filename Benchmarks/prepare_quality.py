"""What scaling down costs in quality, on real photos.

The photos are those of scikit-image (public domain or CC0) and of Examples/photos, each sent at
0.389 of its size, as 4032 pixels become 1568. Luma SSIM (Wang et al. 2004: Gaussian of 1.5, in
floating point) against a Lanczos downscale of the full decode in floating point. Wanted: at
least 0.99 before encoding, which is measured at quality 100 without subsampling, so that JPEG
takes a little of it; and at quality 85 at most 0.005 below Pillow (draft and LANCZOS) at the
same quality and subsampling.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import openfm as fm
import skimage
from PIL import Image, ImageOps
from skimage.metrics import structural_similarity

ROOT = Path(__file__).resolve().parents[1]
NAMES = ["astronaut.png", "coffee.png", "chelsea.png", "retina.jpg", "hubble_deep_field.jpg"]


def luma(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("L"), np.float64)


def reference(path: Path, size: tuple[int, int]) -> np.ndarray:
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    red, green, blue = (np.asarray(c, np.float32) for c in upright.split())
    full = Image.fromarray(np.float32(0.299) * red + np.float32(0.587) * green
                           + np.float32(0.114) * blue)  # fmt: skip
    return np.asarray(full.resize(size, Image.Resampling.LANCZOS), np.float64)


def with_pillow(path: Path, edge: int, subsampling: str) -> bytes:
    with Image.open(path) as image:
        image.draft("RGB", (edge, edge))
        upright = ImageOps.exif_transpose(image)
        upright.thumbnail((edge, edge), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        upright.convert("RGB").save(out, "JPEG", quality=85, subsampling=subsampling)
    return out.getvalue()


def ssim(data: bytes, wanted: np.ndarray) -> float:
    return float(
        structural_similarity(
            luma(data), wanted, data_range=255, gaussian_weights=True, sigma=1.5,
            use_sample_covariance=False,
        )
    )  # fmt: skip


def main() -> None:
    folder = Path(skimage.__file__).parent / "data"
    paths = [folder / name for name in NAMES]
    paths.append(ROOT / "Examples/photos/waterfall-orientation-6.jpg")
    with tempfile.TemporaryDirectory() as scratch:
        for path in paths:
            source = path
            if path.suffix == ".png":
                source = Path(scratch, path.stem + ".jpg")
                with Image.open(path) as image:
                    image.convert("RGB").save(source, quality=95)
            with Image.open(source) as image:
                edge = round(max(image.size) * 0.389)

            def ours(quality: int, source: Path = source, edge: int = edge) -> fm.PreparedImage:
                policy = fm.ImagePolicy(max_long_edge=edge, formats=["jpeg"], quality=quality)
                return fm.prepare_image(source, policy=policy)

            best, sent = ours(100), ours(85)
            with Image.open(io.BytesIO(sent.data)) as image:
                halved = image.layer[0][1:3] == (2, 2)
            wanted = reference(source, (sent.width, sent.height))
            pillow = ssim(with_pillow(source, edge, "4:2:0" if halved else "4:4:4"), wanted)
            print(
                f"{path.stem:28} {sent.width:4}x{sent.height:<4}  before encoding"
                f" {ssim(best.data, wanted):.4f}  q 85 {ssim(sent.data, wanted):.4f}"
                f"  Pillow {pillow:.4f}"
            )


main()
