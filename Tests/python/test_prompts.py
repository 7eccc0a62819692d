"""What can be wrong with a prompt, each with its own class, before any connection is opened."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import os
import pickle
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openfm as fm
import pytest
from conftest import Models
from PIL import Image, ImageOps
from scripted_server import ScriptedServer

ROOT = Path(__file__).resolve().parents[2]


def jpeg(path: Path, size: tuple[int, int] = (64, 48)) -> bytes:
    Image.effect_noise(size, 60).convert("RGB").save(path, quality=90)
    return path.read_bytes()


def png_header(width: int, height: int, *, broken: bool = False) -> bytes:
    data = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    crc = zlib.crc32(data) ^ (1 if broken else 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + data + struct.pack(">I", crc)


def broken_crc(path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"IDAT")
    length = struct.unpack(">I", data[at - 4 : at])[0]
    data[at + 4 + length] ^= 1
    path.write_bytes(data)


def unreadable(path: Path) -> None:
    jpeg(path)
    path.chmod(0)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))


# name of the file: (what makes it, the class)
BAD_FILES: dict[str, tuple[Callable[[Path], object], type[fm.ImagePromptError]]] = {
    "missing.jpg": (lambda path: None, fm.ImageNotFoundError),
    "directory.jpg": (lambda path: path.mkdir(), fm.ImageIsADirectoryError),
    "socket.jpg": (listening, fm.ImageNotAFileError),
    "empty.jpg": (lambda path: path.write_bytes(b""), fm.EmptyImageError),
    "text.jpg": (lambda path: path.write_text("just words\n" * 9), fm.NotAnImageError),
    "page.png": (lambda path: path.write_text("<!DOCTYPE html><html></html>"), fm.NotAnImageError),
    "header.jpg": (lambda path: path.write_bytes(jpeg(path)[:30]), fm.CorruptImageError),
    "header.png": (
        lambda path: path.write_bytes(png_header(8, 8)[:20]),
        fm.CorruptImageError,
    ),
    "crc-header.png": (
        lambda path: path.write_bytes(png_header(8, 8, broken=True)),
        fm.CorruptImageError,
    ),
    "0x0.png": (lambda path: path.write_bytes(png_header(0, 0)), fm.CorruptImageError),
    "absurd.png": (
        lambda path: path.write_bytes(png_header(2_000_000_000, 2_000_000_000)),
        fm.ImageTooLargeError,
    ),
    "scan.tiff": (
        lambda path: Image.new("L", (8, 8)).save(path),
        fm.UnsupportedImageFormatError,
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_known_when_it_is_attached(tmp_path: Path, name: str) -> None:
    make, kind = BAD_FILES[name]
    path = tmp_path / name
    make(path)
    for given in (path, str(path)):
        with pytest.raises(kind) as caught:
            fm.ImageAttachment(given)
        error = caught.value
        assert type(error) is kind
        assert error.path == str(path)
        assert name in str(error)
        assert isinstance(error, fm.FoundationModelsError)
    with pytest.raises(kind):
        fm.prepare_image(path)
    with pytest.raises(kind):
        fm.inspect_image(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    unreadable(tmp_path / "secret.jpg")
    with pytest.raises(fm.ImageNotReadableError) as caught:
        fm.ImageAttachment(tmp_path / "secret.jpg")
    assert isinstance(caught.value, PermissionError)


def test_an_unreadable_file_as_another_user(tmp_path: Path) -> None:
    """root may read everything, so a child gives root up."""
    import subprocess
    import sys

    import openfm._ctypes_bindings as bindings

    if os.geteuid() != 0:
        pytest.skip("the test above does it")
    # On a path that another user can walk.
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="openfm-"))
    try:
        folder.chmod(0o755)
        unreadable(folder / "secret.jpg")
        code = (
            # Loaded before root is given up: the other user may not read the package either.
            "import sys, os, openfm.imaging\nfrom openfm import ImageAttachment\nos.setuid(65534)\n"
            "try: ImageAttachment(sys.argv[1])\n"
            "except PermissionError as error: print(type(error).__name__, error.path)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, folder / "secret.jpg"],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "python"),
                "OPENFM_LIBRARY": str(bindings.library_path),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == f"ImageNotReadableError {folder}/secret.jpg\n", done.stderr
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"path": ""}, fm.InvalidImagePathError),
        ({"path": "a\0b.jpg"}, fm.InvalidImagePathError),
        ({"path": "\udcff.jpg"}, fm.InvalidImagePathError),
        ({"path": b"a.jpg"}, TypeError),
        ({"path": 5}, TypeError),
        ({"path": None}, TypeError),
        ({"label": ""}, fm.InvalidLabelError),
        ({"label": "a\0b"}, fm.InvalidLabelError),
        ({"label": "\ud800"}, fm.InvalidLabelError),
        ({"label": "a\nb"}, fm.InvalidLabelError),
        ({"label": "\x7f"}, fm.InvalidLabelError),
        ({"label": "a\x85"}, fm.InvalidLabelError),
        ({"label": 5}, TypeError),
        ({"orientation": 0}, fm.InvalidOrientationError),
        ({"orientation": 9}, fm.InvalidOrientationError),
        ({"orientation": True}, TypeError),
        ({"orientation": "6"}, TypeError),
    ],
)
def test_bad_arguments_of_an_attachment(
    picture: Path, arguments: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        fm.ImageAttachment(**{"path": picture, **arguments})


def test_a_name_that_is_not_utf_8_is_to_be_changed(picture: Path) -> None:
    """Any other text would name another file."""
    name = os.fsencode(picture.parent) + b"/a\xff.jpg"
    os.rename(picture, name)  # noqa: PTH104
    with pytest.raises(fm.InvalidImagePathError, match="rename the file") as caught:
        fm.ImageAttachment(os.fsdecode(name))
    assert "encode" not in str(caught.value)
    assert caught.value.path == os.fsdecode(name)


@pytest.mark.parametrize(
    ("prompt", "kind", "hint"),
    [
        (None, fm.PromptTypeError, "NoneType"),
        (5, fm.PromptTypeError, "int"),
        (b"text", fm.PromptTypeError, "decode"),
        ({"text": "a"}, fm.PromptTypeError, "dict"),
        (("a", "b"), fm.PromptTypeError, "list"),
        ((part for part in "ab"), fm.PromptTypeError, "list"),
        (Path("a.jpg"), fm.PromptTypeError, "ImageAttachment"),
        (["a", 5], fm.PromptTypeError, "item 1"),
        (["a", ["b"]], fm.PromptTypeError, "item 1"),
        ("", fm.EmptyPromptError, "empty"),
        ([], fm.EmptyPromptError, "empty"),
        (["", ""], fm.EmptyPromptError, "empty"),
        ("a\0b", fm.InvalidPromptTextError, "index 1"),
        (["a", "\0"], fm.InvalidPromptTextError, "NUL"),
        ("a\ud800b", fm.InvalidPromptTextError, "surrogate"),
    ],
)
def test_a_bad_prompt_is_never_sent(
    server: ScriptedServer, model: Models, prompt: Any, kind: type[Exception], hint: str
) -> None:
    session = fm.LanguageModelSession(model=model())

    async def main() -> None:
        with pytest.raises(kind, match=hint):
            await session.respond(prompt)
        with pytest.raises(kind):
            async for _ in session.stream_response(prompt):
                pass
        assert not session.is_responding

    asyncio.run(main())
    assert server.log() == []


def test_a_bad_picture_is_never_sent(server: ScriptedServer, model: Models, tmp_path: Path) -> None:
    """What is only known when the request is composed, or its pictures are decoded."""
    session = fm.LanguageModelSession(model=model())
    data = jpeg(tmp_path / "noise.jpg")

    def attached(name: str, content: bytes = data, **more: Any) -> fm.ImageAttachment:
        (tmp_path / name).write_bytes(content)
        return fm.ImageAttachment(tmp_path / name, **more)

    gone = attached("gone.jpg")
    gone.path.unlink()
    changed = attached("changed.jpg")
    changed.path.write_bytes(jpeg(tmp_path / "other.jpg"))
    one = attached("one.jpg", label="A")
    broken_crc(tmp_path / "crc.png")
    # Half of the picture, and then the marker of a proper end.
    cut = attached("cut.jpg", data[: len(data) // 2] + b"\xff\xd9")

    cases: list[tuple[Any, type[fm.ImagePromptError]]] = [
        (gone, fm.ImageNotFoundError),
        (changed, fm.ImageChangedError),
        ([one, "and", one], fm.DuplicateLabelError),
        (["first", cut], fm.CorruptImageError),
    ]

    async def main() -> None:
        for prompt, kind in cases:
            with pytest.raises(kind) as caught:
                await session.respond(prompt)
            assert type(caught.value) is kind
            with pytest.raises(kind):
                async for _ in session.stream_response(prompt):
                    pass
        with pytest.raises(fm.CorruptImageError):
            await session.respond(fm.ImageAttachment(tmp_path / "crc.png"))
        assert not session.is_responding

    asyncio.run(main())
    assert server.log() == []


def test_an_attachment_of_ones_own(server: ScriptedServer, model: Models, picture: Path) -> None:
    class Caption(fm.Attachment):
        def add_to_composed_prompt(self, composed_prompt: fm.ComposedPrompt) -> None:
            composed_prompt.add_text("a caption")
            composed_prompt.add_image(picture, "P", orientation=1)

    class Broken(fm.Attachment):
        def add_to_composed_prompt(self, composed_prompt: fm.ComposedPrompt) -> None:
            composed_prompt.add_text("half of it")
            raise KeyError("mine")

    session = fm.LanguageModelSession(model=model())

    async def main() -> None:
        answer = await session.respond(Caption())
        assert answer.startswith("a caption")
        assert "64x48" in answer
        with pytest.raises(KeyError, match="mine"):
            await session.respond(["text", Broken()])
        with pytest.raises(KeyError, match="mine"):
            async for _ in session.stream_response(["text", Broken()]):
                pass

    asyncio.run(main())
    with pytest.raises(TypeError):
        fm.Attachment()  # type: ignore[abstract]


# ---- What an attachment is


def test_an_attachment_knows_its_picture(picture: Path) -> None:
    attachment = fm.ImageAttachment(str(picture), "A")
    assert (attachment.width, attachment.height, attachment.orientation) == (48, 64, 6)
    assert attachment.mime_type == "image/jpeg"
    info = attachment.info
    assert (info.stored_width, info.stored_height) == (64, 48)
    assert info.byte_count == picture.stat().st_size
    assert info.sha256 == hashlib.sha256(picture.read_bytes()).hexdigest()
    assert (attachment.path, attachment.label) == (picture, "A")
    as_stored = fm.ImageAttachment(picture, orientation=1)
    assert (as_stored.width, as_stored.height, as_stored.orientation) == (64, 48, 1)
    assert repr(as_stored) == f"ImageAttachment({str(picture)!r}, orientation=1)"


def test_attachments_are_values(picture: Path, tmp_path: Path) -> None:
    attachment = fm.ImageAttachment(picture, "A")
    assert attachment == fm.ImageAttachment(str(picture), "A")
    assert hash(attachment) == hash(fm.ImageAttachment(picture, "A"))
    assert attachment != fm.ImageAttachment(picture, "B")
    assert attachment != fm.ImageAttachment(picture, "A", orientation=1)
    assert attachment != "A"
    for made in (pickle.loads(pickle.dumps(attachment)), copy.deepcopy(attachment)):
        assert made == attachment
        assert made.info == attachment.info
    with pytest.raises(AttributeError):
        attachment.label = "B"  # type: ignore[misc]


def test_an_attachment_keeps_no_descriptor_and_no_bytes(picture: Path, live: Any) -> None:
    before = len(os.listdir("/proc/self/fd"))
    kept = [fm.ImageAttachment(picture) for _ in range(200)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert live.now()["prompt"] == live.now()["image"] == 0
    assert len(kept) == 200


def test_a_relative_path_outlives_the_working_directory(
    server: ScriptedServer, model: Models, picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(picture.parent)
    attachment = fm.ImageAttachment(picture.name)
    monkeypatch.chdir("/")
    session = fm.LanguageModelSession(model=model())
    assert "48x64" in asyncio.run(session.respond(attachment))


def test_odd_names_work(tmp_path: Path, model: Models) -> None:
    session = fm.LanguageModelSession(model=model())
    for name in ("a b.jpg", "ü 東京 🦊.jpg", "new\nline.jpg", "-rf.jpg", "jpeg.png", "%s.jpg"):
        jpeg(tmp_path / "x.jpg")
        (tmp_path / "x.jpg").rename(tmp_path / name)
        attachment = fm.ImageAttachment(tmp_path / name, "Größe 1")
        assert attachment.mime_type == "image/jpeg"
        assert "64x48" in asyncio.run(session.respond(attachment))


# ---- What is sent, against Pillow


@pytest.mark.parametrize("orientation", range(1, 9))
def test_prepared_pixels_are_upright(tmp_path: Path, orientation: int) -> None:
    from PIL import ImageChops, ImageStat

    original = ROOT / "Examples/photos/waterfall-orientation-6.jpg"
    with Image.open(original) as image:
        small = image.convert("RGB").resize((320, 200))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "turned.jpg"
    small.save(path, quality=95, exif=exif)
    prepared = fm.prepare_image(path)
    (tmp_path / "prepared.jpg").write_bytes(prepared.data)
    with Image.open(path) as source, Image.open(tmp_path / "prepared.jpg") as sent:
        wanted = ImageOps.exif_transpose(source).convert("RGB")
        assert sent.size == wanted.size == (prepared.width, prepared.height)
        assert len(sent.getexif()) == 0
        difference = ImageStat.Stat(ImageChops.difference(sent.convert("RGB"), wanted))
    assert max(difference.mean) < 4
    assert prepared.mime_type == "image/jpeg"
    assert (prepared.original_width, prepared.original_height) == wanted.size


def test_a_policy_limits_what_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("RGBA", (900, 300), (255, 0, 0, 0)).save(path)
    prepared = fm.prepare_image(
        path, policy=fm.ImagePolicy(max_long_edge=300, background="#00ff00")
    )
    assert (prepared.width, prepared.height) == (300, 100)
    assert (prepared.original_width, prepared.original_height) == (900, 300)
    assert "300x100 from 900x300" in repr(prepared)
    (tmp_path / "sent").write_bytes(prepared.data)
    with Image.open(tmp_path / "sent") as sent:
        red, green, blue = sent.convert("RGB").getpixel((150, 50))  # type: ignore[misc]
    assert red < 10
    assert green > 245
    assert blue < 10
    assert fm.prepare_image(path, 6).width == 300
    with pytest.raises(TypeError):
        fm.prepare_image(path, policy={"quality": 5})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_long_edge": -1}, ValueError),
        ({"max_long_edge": True}, TypeError),
        ({"quality": 101}, ValueError),
        ({"quality": 85.0}, TypeError),
        ({"background": "white"}, ValueError),
        ({"background": 0xFFFFFF}, TypeError),
        ({"verify": 1}, TypeError),
    ],
)
def test_a_policy_refuses(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        fm.ImagePolicy(**arguments)
