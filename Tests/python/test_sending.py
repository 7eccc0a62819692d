"""Economy and privacy of what is sent: turned without loss, small, bare, prepared once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openfm as fm
import pytest
from pictures import encoded, exif, natural, pixels, png_chunk, psnr, tiff
from PIL import Image, ImageChops, ImageCms, ImageDraw, ImageOps, PngImagePlugin
from test_images import assert_bare

# What jpegtran calls each orientation.
TURNS = {
    2: ["-flip", "horizontal"],
    3: ["-rotate", "180"],
    4: ["-flip", "vertical"],
    5: ["-transpose"],
    6: ["-rotate", "90"],
    7: ["-transverse"],
    8: ["-rotate", "270"],
}
JPEGTRAN = shutil.which("jpegtran")


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.skipif(JPEGTRAN is None, reason="jpegtran is not installed")
@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize(
    "kind", ["4:4:4", "4:2:2", "4:2:0", "gray", "progressive", "optimized", "restarts"]
)
def test_a_turn_is_jpegtrans_to_the_pixel(tmp_path: Path, orientation: int, kind: str) -> None:
    path = tmp_path / "stored.jpg"
    picture = natural(160, 96)
    if kind == "gray":
        picture.convert("L").save(path, quality=90, exif=exif(orientation))
    else:
        picture.save(
            path,
            quality=90,
            subsampling=kind if kind.startswith("4") else "4:2:0",
            progressive=kind == "progressive",
            optimize=kind == "optimized",
            restart_marker_rows=1 if kind == "restarts" else 0,
            exif=exif(orientation),
        )
    image = fm.prepare_image(path)
    assert image.action == "lossless-turn" and image.orientation == orientation
    assert_bare(image.data)
    assert JPEGTRAN is not None

    def jpegtran(*options: str) -> bytes:
        words = [JPEGTRAN, "-perfect", "-copy", "none", *options, *TURNS[orientation], str(path)]
        return subprocess.run(words, check=True, capture_output=True).stdout

    turned = jpegtran()
    if kind in ("progressive", "optimized"):
        # Packed as well as it was, with the best tables.
        assert len(image.data) <= 1.01 * len(jpegtran("-optimize"))
    with opened(turned) as wanted, opened(image.data) as got:
        assert got.size == wanted.size and got.mode == wanted.mode
        assert ImageChops.difference(got, wanted).getbbox() is None
    # And what Pillow makes of the decoded file, but for the rounding of the inverse transform and
    # of chroma between samples.
    with Image.open(path) as source:
        assert psnr(image, ImageOps.exif_transpose(source)) > (45 if kind == "4:4:4" else 38)
    # Once more changes nothing.
    again = tmp_path / "again.jpg"
    again.write_bytes(image.data)
    assert fm.prepare_image(again).action == "passthrough"


def test_sides_that_end_within_a_block_are_not_mirrored_there(tmp_path: Path) -> None:
    path = tmp_path / "odd.jpg"
    for (width, height), orientation, action in [
        ((160, 97), 6, "re-encoded"),
        ((160, 97), 8, "lossless-turn"),
        ((161, 96), 6, "lossless-turn"),
        ((161, 96), 8, "re-encoded"),
        ((161, 97), 5, "lossless-turn"),
        ((161, 97), 3, "re-encoded"),
        ((168, 96), 2, "re-encoded"),  # blocks of 8, units of 16
    ]:
        natural(width, height).save(path, quality=90, subsampling="4:2:0", exif=exif(orientation))
        image = fm.prepare_image(path)
        assert image.action == action, (width, height, orientation)
        with Image.open(path) as source:
            assert psnr(image, ImageOps.exif_transpose(source)) > 33


def test_what_servers_cannot_read_is_encoded_again(tmp_path: Path) -> None:
    plain = tmp_path / "plain.jpg"
    natural(96, 64).save(plain, quality=90)
    files = []
    if JPEGTRAN is not None:
        arithmetic = tmp_path / "arithmetic.jpg"
        with arithmetic.open("wb") as file:
            subprocess.run([JPEGTRAN, "-arithmetic", str(plain)], check=True, stdout=file)
        files.append(arithmetic)
    inks = tmp_path / "inks.jpg"
    natural(96, 64).convert("CMYK").save(inks)
    animated = tmp_path / "animated.png"
    natural(96, 64).save(animated, save_all=True, append_images=[natural(96, 64, 2)])
    deep = tmp_path / "deep.png"
    Image.new("I;16", (20, 20), 40000).save(deep)
    for path in [*files, inks, animated, deep]:
        image = fm.prepare_image(path)
        assert image.action == "re-encoded", path.name
        assert_bare(image.data)
        with opened(image.data) as result:
            assert result.mode in ("RGB", "L") and not getattr(result, "is_animated", False)


def secret_jpeg(path: Path, orientation: int = 1, size: tuple[int, int] = (160, 96)) -> bytes:
    """A photo with everything a phone or an editor leaves in it."""
    block = Image.Exif()
    block[0x0112] = orientation
    block[0x010F] = "SECRET maker"
    block.get_ifd(0x8825)[1] = "N"
    block.get_ifd(0x8825)[2] = (48.0, 51.0, 30.0)
    buffer = io.BytesIO()
    natural(*size).save(
        buffer,
        "JPEG",
        quality=90,
        exif=block,
        comment=b"SECRET comment",
        xmp=b'<x:xmpmeta tiff:Orientation="6">SECRET xmp</x:xmpmeta>',
    )
    data = buffer.getvalue()

    def segment(marker: int, payload: bytes) -> bytes:
        return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload

    extra = segment(0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0cSECRET iptc ")
    extra += segment(0xEB, b"JP\0\1\0\0\0\1\0\0\0\x20jumbSECRET c2pa")
    extra += segment(0xE0, b"JFXX\0\x10" + b"SECRET thumbnail")
    extra += segment(0xE2, b"MPF\0SECRET index")
    data = data[:20] + extra + data[20:]
    frame = io.BytesIO()
    natural(64, 64, 3).save(frame, "JPEG", comment=b"SECRET frame")
    data += frame.getvalue() + b"SECRET trailer"
    path.write_bytes(data)
    return data


@pytest.mark.parametrize("orientation", [1, 6, 7])
@pytest.mark.parametrize("edge", [1568, 100])
def test_nothing_but_pixels_leaves_in_a_jpeg(tmp_path: Path, orientation: int, edge: int) -> None:
    path = tmp_path / "phone.jpg"
    data = secret_jpeg(path, orientation)
    assert data.count(b"SECRET") >= 8
    image = fm.prepare_image(path, policy=fm.ImagePolicy(max_long_edge=edge))
    if edge > 160:
        assert image.action == ("passthrough" if orientation == 1 else "lossless-turn")
    assert_bare(image.data)
    for word in (b"SECRET", b"Exif", b"http", b"8BIM", b"jumb", b"MPF", b"JFXX"):
        assert word not in image.data
    assert image.data.count(b"\xff\xd8\xff") == 1


@pytest.mark.parametrize("orientation", [1, 6])
def test_nothing_but_pixels_leaves_in_a_png(tmp_path: Path, orientation: int) -> None:
    path = tmp_path / "screen.png"
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Author", "SECRET author")
    texts.add_text("Comment", "SECRET zipped", zip=True)
    texts.add_itxt("XML:com.adobe.xmp", "SECRET xmp")
    natural(60, 40).save(path, pnginfo=texts, exif=tiff(orientation), dpi=(72, 72))
    path.write_bytes(path.read_bytes() + b"SECRET trailer")
    image = fm.prepare_image(path)
    assert_bare(image.data)
    assert b"SECRET" not in image.data


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("edge", [1568, 100])
def test_metadata_is_kept_where_the_policy_says_so(
    tmp_path: Path, orientation: int, edge: int
) -> None:
    path = tmp_path / "phone.jpg"
    secret_jpeg(path, orientation)
    image = fm.prepare_image(path, policy=fm.ImagePolicy(max_long_edge=edge, metadata="keep"))
    for word in (b"SECRET maker", b"SECRET comment", b"SECRET xmp", b"SECRET iptc"):
        assert word in image.data
    for word in (b"SECRET trailer", b"SECRET frame", b"SECRET index"):
        assert word not in image.data
    with opened(image.data) as result:
        # The pixels have taken the orientation over: nobody may turn them again.
        assert result.getexif().get(0x0112) == 1
        assert result.getexif()[0x010F] == "SECRET maker"
        assert ImageOps.exif_transpose(result).size == (image.width, image.height)
        result.load()
    assert b'tiff:Orientation="1"' in image.data
    again = tmp_path / "again.jpg"
    again.write_bytes(image.data)
    assert fm.inspect_image(again).orientation == 1

    screen = tmp_path / "screen.png"
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Author", "somebody")
    natural(60, 40).save(screen, pnginfo=texts, exif=tiff(orientation))
    kept = fm.prepare_image(screen, policy=fm.ImagePolicy(metadata="keep"))
    with opened(kept.data) as result:
        assert result.getexif().get(0x0112) == 1
        result.load()
        assert result.info["Author"] == "somebody"


def screenshot(width: int, height: int, scale: int = 1) -> Image.Image:
    """Windows, rules and lines of small text, some of it red on blue."""
    image = Image.new("RGB", (width, height), (246, 246, 248))
    draw = ImageDraw.Draw(image)
    for top in range(10, height - 40, 60):
        draw.rectangle([10, top, width - 10, top + 50], outline=(40, 40, 40), fill=(255, 255, 255))
        draw.rectangle([10, top, width - 10, top + 16], fill=(20, 40, 170))
        draw.text((14, top + 3), f"Window {top} red on blue " * 3, fill=(250, 30, 30))
        draw.text((14, top + 24), f"black on white, line {top} " * 4, fill=(0, 0, 0))
    return image.resize((width * scale, height * scale), Image.Resampling.NEAREST)


def test_screenshots_stay_lossless_and_photos_become_jpeg(tmp_path: Path) -> None:
    path = tmp_path / "screen.png"
    screenshot(900, 600).save(path, exif=tiff(3))
    image = fm.prepare_image(path)
    assert image.mime_type == "image/png" and image.action == "re-encoded"
    with Image.open(path) as source:
        assert (pixels(image) == pixels(ImageOps.exif_transpose(source))).all()
    # Scaled down it is still a drawing.
    small = fm.prepare_image(path, policy=fm.ImagePolicy(max_long_edge=600))
    assert small.mime_type == "image/png"
    natural(900, 600).save(path, exif=tiff(3))
    assert fm.prepare_image(path).mime_type == "image/jpeg"


def chroma_error(image: fm.PreparedImage, wanted: Image.Image) -> float:
    with opened(image.data) as result:
        got = np.asarray(result.convert("YCbCr"), np.float64)[..., 1:]
    return float(np.abs(got - np.asarray(wanted.convert("YCbCr"), np.float64)[..., 1:]).mean())


def test_coloured_text_keeps_its_colour(tmp_path: Path) -> None:
    path = tmp_path / "screen.png"
    screenshot(900, 600).save(path)
    jpeg = fm.prepare_image(path, policy=fm.ImagePolicy(formats=["jpeg"]))
    with opened(jpeg.data) as result:
        assert result.mode == "RGB"
        assert {layer[1:3] for layer in result.layer} == {(1, 1)}
    blurred = io.BytesIO()
    with Image.open(path) as source:
        source.save(blurred, "JPEG", quality=85, subsampling="4:2:0")
        halved = Image.open(blurred)
        lost = np.abs(pixels(halved) - pixels(source)).mean()
        assert np.abs(pixels(jpeg) - pixels(source)).mean() < 0.7 * lost

    # A photo's smooth colours are halved; a photographed page in 4:2:0, twice as large as what is
    # sent, has a chroma sample for every pixel that is sent.
    natural(900, 600).save(path)
    smooth = fm.prepare_image(path, policy=fm.ImagePolicy(formats=["jpeg"]))
    with opened(smooth.data) as result:
        assert result.layer[0][1:3] == (2, 2)
    page = tmp_path / "page.jpg"
    screenshot(800, 600, scale=2).save(page, quality=95, subsampling="4:2:0")
    half = fm.prepare_image(page, policy=fm.ImagePolicy(max_long_edge=800))
    with opened(half.data) as result:
        assert result.layer[0][1:3] == (1, 1)
    natural(1600, 1200).save(page, quality=95, subsampling="4:2:0")
    with opened(fm.prepare_image(page, policy=fm.ImagePolicy(max_long_edge=800)).data) as result:
        assert result.layer[0][1:3] == (2, 2)


def test_quality_gives_way_to_bytes_before_size_does(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    natural(800, 600, 5).save(path, quality=97, subsampling="4:2:0")
    free = fm.prepare_image(path, policy=fm.ImagePolicy(max_long_edge=600))
    tables = []
    for share in (0.9, 0.7, 0.05):
        limit = int(len(free.data) * share)
        image = fm.prepare_image(path, policy=fm.ImagePolicy(max_long_edge=600, max_bytes=limit))
        assert len(image.data) <= limit
        with opened(image.data) as result:
            assert result.size == (image.width, image.height)
            tables.append(sum(result.quantization[0]))
        assert (image.width == 600) == (share > 0.1)
        assert image.scale == pytest.approx(image.width / 800)
    assert tables == sorted(tables)


def test_families_are_sent_what_they_see(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    natural(4000, 3000).save(path, quality=80)

    def sent(name: str) -> tuple[int, int]:
        model = fm.ChatCompletionsLanguageModel("http://127.0.0.1:9", name)
        image = fm.ImageAttachment(path).prepare(model.image_policy)
        return image.width, image.height

    assert sent("gpt-4o") == (1024, 768)
    assert sent("claude-sonnet-4-5") == (1260, 945)
    assert sent("gemma3:4b") == (1195, 896)
    width, height = sent("qwen2.5vl:7b")
    assert width % 28 == height % 28 == 0 and width * height <= 1280 * 28 * 28
    assert sent("nobody-knows") == (1568, 1176)
    model = fm.ChatCompletionsLanguageModel(
        "http://127.0.0.1:9", "llava:7b", image_policy=fm.ImagePolicy(max_long_edge=0, quality=50)
    )
    assert model.image_policy.quality == 50
    assert model.image_policy.max_long_edge == 0
    assert model.estimate_image_tokens(4000, 3000) == (576, True)
    with pytest.raises(fm.InvalidArgumentError, match="openai-tiles"):
        fm.ImagePolicy(preset="nobody")
    for name in ("default", "claude", "qwen2-vl"):
        assert fm.ImagePolicy(preset=name).to_dict() == {"preset": name}


def test_an_attachments_policy_goes_over_its_models(
    model: Callable[..., fm.ChatCompletionsLanguageModel], tmp_path: Path
) -> None:
    path = tmp_path / "photo.jpg"
    natural(400, 300).save(path)

    async def main() -> list[int]:
        session = fm.LanguageModelSession(model=model("echo"))
        await session.respond(
            [
                fm.ImageAttachment(path),
                fm.ImageAttachment(path, policy=fm.ImagePolicy(max_long_edge=100)),
            ]
        )
        assert session.last_response is not None
        return [image.width for image in session.last_response.images]

    assert asyncio.run(main()) == [400, 100]


def test_prepare_tells_all_that_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "<b>photo.jpg"
    natural(640, 480).save(path, exif=exif(6))
    attachment = fm.ImageAttachment(path, "<i>label</i>")
    image = attachment.prepare(fm.ImagePolicy(max_long_edge=320))
    assert (image.width, image.height) == (240, 320)
    assert (image.original_width, image.original_height) == (480, 640)
    assert (image.scale, image.orientation, image.action) == (0.5, 6, "re-encoded")
    assert image.sha256 == hashlib.sha256(image.data).hexdigest()
    assert attachment.prepare().action == "lossless-turn"

    html = attachment._repr_html_()
    assert "<b>" not in html and "<i>" not in html
    assert "&lt;i&gt;label" in html and "480" in html and "lossless-turn" in html
    embedded = re.search(r'src="data:(image/\w+);base64,([^"]+)"', html)
    assert embedded is not None
    with opened(base64.b64decode(embedded[2])) as small:
        assert small.size == (192, 256)
    with opened(attachment._repr_png_()) as small:
        assert small.format == "PNG" and max(small.size) == 256
    assert image._repr_mimebundle_()["image/jpeg"]

    natural(640, 480, 9).save(path)
    with pytest.raises(fm.ImageChangedError):
        attachment.prepare()


def test_each_picture_is_prepared_once(
    model: Callable[..., fm.ChatCompletionsLanguageModel], tmp_path: Path
) -> None:
    paths = []
    for seed in range(5):
        paths.append(tmp_path / f"{seed}.jpg")
        natural(320, 240, seed).save(paths[-1], exif=exif(6))

    async def main() -> None:
        session = fm.LanguageModelSession(model=model("echo"))
        fm.image_cache_clear()
        for turn in range(50):
            prompt: list[fm.PromptComponent] = [f"turn {turn}"]
            if turn < 5:
                prompt.append(fm.ImageAttachment(paths[turn]))
            await session.respond(prompt)

    asyncio.run(main())
    info = fm.image_cache_info()
    assert (info.misses, info.count, info.evictions) == (5, 5, 0)
    # Every later turn sends all five again.
    assert info.hits == sum(min(turn + 1, 5) for turn in range(50)) - 5
    assert 0 < info.byte_count <= info.byte_limit
    fm.image_cache_clear()
    assert fm.image_cache_info() == fm.ImageCacheInfo(0, 0, info.byte_limit, 0, 0, 0)


def test_threads_that_want_the_same_picture_share_it(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    natural(1200, 900).save(path, exif=exif(6))
    fm.image_cache_clear()
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(fm.prepare_image(path).data))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and len(set(results)) == 1
    info = fm.image_cache_info()
    assert (info.misses, info.hits) == (1, 7)


FM = Path(__file__).resolve().parents[2] / ".build/openfm/bin/fm"


def run_fm(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(FM), "image", *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def test_fm_image(tmp_path: Path) -> None:
    path, out = tmp_path / "photo.jpg", tmp_path / "sent.jpg"
    natural(640, 480).save(path, exif=exif(6))
    text = run_fm(str(path)).stdout
    assert "640x480 image/jpeg" in text and "lossless-turn" in text
    done = run_fm(str(path), "--json", "-o", str(out), "--max-long-edge", "320", "-m", "llava:7b")
    facts = json.loads(done.stdout)
    assert facts["file"]["orientation"] == 6
    assert (facts["sent"]["width"], facts["sent"]["original_width"]) == (240, 480)
    assert facts["sent"]["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert facts["tokens"] == {"count": 576, "is_exact": True, "family": "llava"}
    with Image.open(out) as sent:
        assert sent.size == (240, 320)
    assert out.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    policy = "--preset claude --formats png --quality 70 --background #102030 --max-bytes 90000"
    facts = json.loads(run_fm(str(path), "--json", *policy.split()).stdout)
    assert facts["sent"]["mime_type"] == "image/png" and facts["sent"]["byte_count"] <= 90000
    for wrong in (
        ["--quality", "101"],
        ["--preset", "nobody"],
        ["--formats", "webp"],
        ["--orientation", "9"],
        ["twice.jpg"],
    ):
        assert run_fm(str(path), *wrong, code=2).stderr.startswith("fm: ")
    assert "no such file" in run_fm(str(tmp_path / "none.jpg"), code=1).stderr
    assert "choose another" in run_fm(str(path), "-o", str(tmp_path / "no/where"), code=1).stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photo.jpg", "sent.jpg"]


SECRET = b"48.8584N 2.2945E"


def png_with(data: list[bytes]) -> bytes:
    header = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), *((b"IDAT", part) for part in data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)


def test_bytes_hidden_in_the_data_of_a_png_do_not_go_along(tmp_path: Path) -> None:
    rows = b"".join(b"\0" + bytes([16, 32, 48]) * 32 for _ in range(32))
    stream = zlib.compress(rows, 0)
    path = tmp_path / "picture.png"
    for honest in ([stream], [stream[:100], b"", stream[100:]], [zlib.compress(rows, 9)]):
        path.write_bytes(png_with(honest))
        assert fm.prepare_image(path).action == "passthrough"
    hidden = {
        "behind the rows": [zlib.compress(rows + SECRET, 0)],
        "behind the stream": [stream + SECRET],
        "in a chunk of its own": [stream, SECRET],
        "behind the rows, in two": [zlib.compress(rows + SECRET, 0)[:3000],
                                    zlib.compress(rows + SECRET, 0)[3000:]],
    }  # fmt: skip
    for place, data in hidden.items():
        path.write_bytes(png_with(data))
        image = fm.prepare_image(path)
        assert image.action == "re-encoded", place
        assert_bare(image.data)
        assert SECRET not in image.data, place
        with Image.open(path) as source:
            assert (pixels(image) == pixels(source)).all(), place


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("orientation", [1, 6])
def test_bytes_hidden_behind_a_scan_do_not_go_along(
    tmp_path: Path, progressive: bool, orientation: int
) -> None:
    path = tmp_path / "picture.jpg"
    jpeg = encoded(natural(64, 48), "JPEG", progressive=progressive, exif=exif(orientation))
    path.write_bytes(jpeg)
    assert fm.prepare_image(path).action in ("passthrough", "lossless-turn")
    path.write_bytes(jpeg[:-2] + SECRET + jpeg[-2:])
    image = fm.prepare_image(path)
    assert_bare(image.data)
    # A decoder reads a few bytes ahead, which it cannot tell from the scan's.
    assert SECRET[8:] not in image.data
    with Image.open(path) as source:
        assert psnr(image, ImageOps.exif_transpose(source)) > 30


def test_loose_bytes_between_the_segments_cost_no_quality_and_do_not_go_along(
    tmp_path: Path,
) -> None:
    jpeg = encoded(natural(64, 48), "JPEG")
    path = tmp_path / "picture.jpg"
    for marker in (b"\xff\xdb", b"\xff\xc0", b"\xff\xc4", b"\xff\xda"):
        at = jpeg.index(marker)
        path.write_bytes(jpeg[:at] + SECRET + jpeg[at:])
        image = fm.prepare_image(path)
        assert (image.action, image.warning_count) == ("passthrough", 1), marker
        assert SECRET not in image.data
        assert_bare(image.data)
        with Image.open(io.BytesIO(jpeg)) as source:
            assert (pixels(image) == pixels(source)).all(), marker


def test_what_is_no_regular_file_is_written_into_and_never_replaced(tmp_path: Path) -> None:
    """A device or a pipe given as the output must still be one afterwards, a link still a link."""
    path = tmp_path / "photo.jpg"
    natural(64, 48).save(path)
    run_fm(str(path), "-o", str(tmp_path / "plain.jpg"))
    sent = (tmp_path / "plain.jpg").read_bytes()

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([str(FM), "image", str(path), "-o", str(pipe)]) as writer:
        assert pipe.read_bytes() == sent
        assert writer.wait() == 0
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    with subprocess.Popen(
        [str(FM), "image", str(path), "-o", str(pipe)], stderr=subprocess.PIPE
    ) as writer:
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.3)  # nobody reads
        writer.send_signal(signal.SIGINT)
        assert writer.wait(10) == 130

    target = tmp_path / "elsewhere" / "target.jpg"
    target.parent.mkdir()
    link = tmp_path / "link.jpg"
    link.symlink_to(target)
    run_fm(str(path), "-o", str(link))
    assert link.is_symlink() and target.read_bytes() == sent
    target.write_bytes(b"before")
    target.chmod(0o640)
    run_fm(str(path), "-o", str(link))
    assert link.is_symlink() and target.read_bytes() == sent
    assert target.stat().st_mode & 0o777 == 0o640

    # Links, so that a fault here costs a link and not the machine's device.
    for device, code in (("/dev/null", 0), ("/dev/full", 1)):
        link.unlink()
        link.symlink_to(device)
        done = run_fm(str(path), "-o", str(link), code=code)
        assert ("choose another place" in done.stderr) == (code != 0)
        assert link.is_symlink() and stat.S_ISCHR(link.stat().st_mode)
    assert "Is a directory" in run_fm(str(path), "-o", str(target.parent), code=1).stderr
    assert {p.name for p in tmp_path.iterdir()} == {
        "photo.jpg", "plain.jpg", "pipe", "link.jpg", "elsewhere",
    }  # fmt: skip


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_colour_profile_forbids_passing_through(tmp_path: Path) -> None:
    """Turning or passing the data of another colour space would change what is seen."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    path = tmp_path / "profile.jpg"
    natural(160, 96).save(path, quality=90, exif=exif(6), icc_profile=profile)
    # A profile of another model than the picture's is no use, and is left out.
    assert fm.prepare_image(path).action == "lossless-turn"
