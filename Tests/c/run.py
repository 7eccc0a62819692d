"""Builds and runs the C tests against the release library and the scripted server.

    python Tests/c/run.py [NAME...]        e.g. stream memory

OPENFM_TEST_BUILD names another build than .build/openfm, such as .build/openfm-debug.

Exits with 0 only when every program passed. The last line counts all tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OPENFM = Path(os.environ.get("OPENFM_TEST_BUILD", ROOT / ".build/openfm"))

sys.path.insert(0, str(HERE.parent / "server"))

from scripted_server import ScriptedServer  # noqa: E402


def make_pictures(folder: Path) -> None:
    """Good ones and one of each kind of bad one."""
    exif = Image.Exif()
    exif[0x0112] = 6
    half = Image.new("RGB", (64, 48), "blue")
    half.paste((255, 0, 0), (0, 0, 32, 48))
    half.save(folder / "good.jpg", quality=90)
    half.save(folder / "turned.jpg", quality=90, exif=exif)
    good = (folder / "good.jpg").read_bytes()
    tables = good.index(b"\xff\xdb")
    (folder / "odd.jpg").write_bytes(good[:tables] + b"loose" + good[tables:])
    half.save(folder / "good.png")
    Image.effect_noise((2000, 1500), 40).convert("RGB").save(folder / "large.jpg", quality=80)
    shutil.copy(folder / "good.jpg", folder / "naïve name ☃.jpg")
    data = (folder / "large.jpg").read_bytes()
    (folder / "cut-in-scan.jpg").write_bytes(data[: len(data) // 2])
    (folder / "cut-in-header.jpg").write_bytes(data[:100])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("just some text\n" * 20)
    (folder / "page.png").write_text("<!DOCTYPE html><html><body>no</body></html>\n")
    (folder / "folder.jpg").mkdir()
    Image.new("L", (8, 8)).save(folder / "scan.tiff")


def build(name: str, folder: Path) -> Path:
    program = folder / name
    command = [
        *os.environ.get("CC", "cc").split(),
        *["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"],
        *os.environ.get("CFLAGS", "").split(),
        str(HERE / f"{name}.c"),
        *["-o", str(program), f"-I{OPENFM / 'include'}", f"-L{OPENFM / 'lib'}"],
        *["-lFoundationModels", "-lpthread", f"-Wl,-rpath,{OPENFM / 'lib'}"],
    ]
    subprocess.run(command, check=True)
    return program


def main(names: list[str]) -> int:
    if not names:
        names = sorted(path.stem.removeprefix("test_") for path in HERE.glob("test_*.c"))
    passed = failed = 0
    with tempfile.TemporaryDirectory() as temporary, ScriptedServer() as server:
        folder = Path(temporary)
        pictures = folder / "pictures"
        pictures.mkdir()
        make_pictures(pictures)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("OPENFM_")
        } | {
            "OPENFM_TEST_SERVER": server.base_url,
            "OPENFM_TEST_PICTURES": str(pictures),
            # No engine and no installed model of this machine.
            "PATH": str(folder / "no-programs"),
            "HOME": str(folder / "no-home"),
            "XDG_DATA_HOME": str(folder / "no-data"),
        }
        for name in names:
            print(f"-- {name}", flush=True)
            program = build(f"test_{name}", folder)
            wrapper = os.environ.get("OPENFM_TEST_WRAPPER", "").split()
            command = [*wrapper, str(program)]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
            print(done.stdout, end="", flush=True)
            counted = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.M)
            if counted:
                passed += int(counted[1])
                failed += int(counted[2])
            if done.returncode != 0 and not (counted and int(counted[2])):
                failed += 1
                print(f"{name} ended with {done.returncode}", flush=True)
    print(f"total: {passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
