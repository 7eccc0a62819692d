"""The build backend: wheel, sdist and editable install, each used as a user would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests/bare"))
import every_format  # noqa: E402

LIBRARY = ROOT / "python/openfm/lib/libFoundationModels.so.1"
CHECK = (
    "import openfm, pathlib; from openfm._ctypes_bindings import library_path; "
    "print(pathlib.Path(openfm.__file__).parent, library_path, openfm.build_info()['version'])"
)


def environment(**more: str) -> dict[str, str]:
    """This process's, without what would let a test pass by accident."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENFM_", "PYTHON"))}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}


def run(*command: object, cwd: Path | None = None, **more: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def untouched(source: Path) -> set[str]:
    return {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `git clone` gives: every file that git knows."""
    folder = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def make_wheel(source: Path, folder: Path, *options: object, **more: str) -> Path:
    """With the environment's own tools: what is asked for is that of scripts/requirements.txt."""
    run(
        *[sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"],
        *["--no-index", source, "-w", folder, *options],
        **more,
    )
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    before = untouched(source)
    made = make_wheel(
        source,
        folder,
        *["--config-settings", f"prebuilt-library={LIBRARY}"],
        SOURCE_DATE_EPOCH="1700000000",
    )
    assert untouched(source) == before, "building left something in the source tree"
    return made


@pytest.fixture(scope="module")
def backend_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with what the backend asks for, as a build front end makes one."""
    place = tmp_path_factory.mktemp("backend") / "venv"
    venv.create(place, with_pip=True)
    run(place / "bin/python", "-m", "pip", "install", "-q", "setuptools>=77")
    return place / "bin/python"


def test_a_wheel_is_of_the_platform_and_of_no_python(wheel: Path) -> None:
    # glibc 2.34 and later: Debian 12, Ubuntu 22.04, RHEL 9.
    assert wheel.name == "openfm-0.1.0-py3-none-manylinux_2_34_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        described = archive.read("openfm-0.1.0.dist-info/WHEEL").decode()
        metadata = archive.read("openfm-0.1.0.dist-info/METADATA").decode()
    assert "Root-Is-Purelib: false" in described
    assert "Tag: py3-none-manylinux_2_34_x86_64" in described
    extras = re.findall(r"^Provides-Extra: (.*)$", metadata, re.M)
    assert set(extras) == {"heif", "local", "notebook"}
    # Nothing but extras: the base needs no other package.
    needed = re.findall(r"^Requires-Dist: (.*)$", metadata, re.M)
    assert [line for line in needed if "extra ==" not in line] == []
    assert any(line.startswith("xllamacpp") for line in needed)
    assert {
        "openfm/__init__.py",
        "openfm/py.typed",
        "openfm/lib/libFoundationModels.so.1",
        "openfm/include/FoundationModels.h",
        "openfm/include/OpenFM.h",
        "openfm-0.1.0.data/scripts/fm",
    } <= names
    assert not [name for name in names if name.startswith(("Tests", "Sources", "models"))]


def test_a_wheel_is_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    assert wheel.stat().st_size <= 9_000_000
    assert unpacked <= 25_000_000


def test_auditwheel_agrees_with_the_tag(wheel: Path) -> None:
    shown = run(sys.executable, "-m", "auditwheel", "show", wheel)
    assert 'platform tag to "manylinux_2_34_x86_64"' in " ".join(shown.split())
    # What is left to the machine is the manylinux set, without a libcurl or an OpenSSL.
    with zipfile.ZipFile(wheel) as archive:
        gathered = {name for name in archive.namelist() if name.startswith("openfm.libs/")}
    assert gathered
    assert not [name for name in gathered if re.search(r"curl|ssl|crypto|stdc|swift", name)]


def test_a_wheel_tells_what_it_carries(wheel: Path) -> None:
    """A bill of materials, and a licence for each library that is carried along."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        bill = json.loads(archive.read("openfm-0.1.0.dist-info/sboms/openfm.cdx.json"))
        metadata = archive.read("openfm-0.1.0.dist-info/METADATA").decode()
        licences = {
            name: archive.read(name).decode()
            for name in names
            if name.startswith("openfm-0.1.0.dist-info/licenses/")
        }
    assert bill["bomFormat"] == "CycloneDX"
    parts = {part["name"]: part for part in bill["components"]}
    linked = {"curl", "libstdc++", "libwebp", "nghttp2", "openssl", "swift", "zimg"}
    assert linked <= set(parts)
    assert all(part["version"] and part["purl"] and part["licenses"] for part in parts.values())
    references = [part["bom-ref"] for part in bill["components"]]
    assert len(set(references)) == len(references)
    assert bill["dependencies"][0]["dependsOn"] == references

    gathered = [name for name in names if name.startswith("openfm.libs/")]
    packaged = [part for part in parts.values() if part["purl"].startswith("pkg:deb/")]
    assert len(packaged) == len(gathered), (gathered, packaged)
    listed = set(re.findall(r"^License-File: (.*)$", metadata, re.M))
    assert listed == {name.partition("/licenses/")[2] for name in licences}
    for part in packaged:
        assert len(licences[f"openfm-0.1.0.dist-info/licenses/libraries/{part['name']}.txt"]) > 500
    for name in linked:
        assert f"openfm-0.1.0.dist-info/licenses/licenses/{name}.txt" in licences


def test_the_same_tree_gives_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    """Every byte, whatever the day, the folder and the umask."""
    elsewhere = tmp_path / "another place"
    shutil.copytree(source, elsewhere)
    again = make_wheel(
        elsewhere,
        tmp_path / "out",
        OPENFM_PREBUILT_LIBRARY=str(LIBRARY),
        SOURCE_DATE_EPOCH="1700000000",
        TZ="Asia/Tokyo",
    )
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()
    with zipfile.ZipFile(again) as archive:
        assert {member.date_time for member in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}


def test_a_build_front_end_makes_the_wheel_from_the_sdist(source: Path, tmp_path: Path) -> None:
    """`python -m build`: the sdist, and from it, in another folder, the wheel."""
    run(
        *[sys.executable, "-m", "build", "-q", "--no-isolation", "--skip-dependency-check"],
        *[f"-Cprebuilt-library={LIBRARY}", "-o", tmp_path, source],
    )
    assert {path.suffix for path in tmp_path.iterdir()} == {".whl", ".gz"}


def pythons() -> list[str]:
    """The other Pythons of this machine that a wheel is for."""
    found = []
    roots = [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep)]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    roots += [folder / "bin" for folder in sorted(versions.glob("3.*"))]
    for minor in range(10, 15):
        if minor == sys.version_info.minor:
            continue
        for folder in roots:
            program = folder / f"python3.{minor}"
            works = program.exists() and subprocess.run([program, "-V"], capture_output=True)
            if works and works.returncode == 0:
                found.append(str(program))
                break
    return found


@pytest.mark.parametrize("python", pythons() or [sys.executable])
def test_a_wheel_works_on_every_python(wheel: Path, tmp_path: Path, python: str) -> None:
    """Unpacked as `pip install --target` does, by a Python that has nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    told = run(python, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {CHECK}")
    assert told.split()[2] == "0.1.0"


def test_an_installed_wheel_works(wheel: Path, tmp_path: Path) -> None:
    """Package, command and C headers, from a folder where no source tree is."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin/python"
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
    package, library, version = run(python, "-c", CHECK, cwd=tmp_path).split()
    assert Path(package).is_relative_to(place)
    assert Path(library).is_relative_to(place)
    assert version == "0.1.0"

    # The command is the program itself: Python does not start.
    command = place / "bin/fm"
    assert command.read_bytes()[:4] == b"\x7fELF"
    help_text = run(command, "--help", cwd=tmp_path)
    assert "respond" in help_text

    program = tmp_path / "version.c"
    program.write_text(
        "#include <OpenFM.h>\n#include <stdio.h>\nint main(void) { puts(FMVersion()); return 0; }\n"
    )
    built = tmp_path / "version"
    lib = Path(package) / "lib"
    run(
        *["cc", program, "-o", built, f"-I{Path(package) / 'include'}"],
        *[f"-L{lib}", "-lFoundationModels", "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{lib}"],
    )
    assert run(built) == "0.1.0\n"

    run(python, "-m", "pip", "uninstall", "-q", "-y", "openfm")
    assert not command.exists()
    assert not Path(package).exists()


def told_of(python: Path, pictures: dict[str, Path], **more: str) -> dict[str, object]:
    """What an installed wheel says of those pictures; by format."""
    program = ROOT / "Tests/bare/every_format.py"
    told = json.loads(run(python, "-I", program, *pictures.values(), **more))
    found = {name: told["pictures"][str(path)] for name, path in pictures.items()}
    return {**found, "formats": told["formats"]}


def test_an_installed_wheel_reads_every_format(wheel: Path, tmp_path: Path) -> None:
    """With the libheif of this machine, which scripts/setup installs: a build that lacks a format
    must be seen here."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    run(place / "bin/python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
    pictures = every_format.make(tmp_path)
    told = told_of(place / "bin/python", pictures)
    assert told.pop("formats") == list(every_format.FORMATS)
    assert told == dict.fromkeys(every_format.FORMATS, list(every_format.SIZE))
    assert {name: every_format.wrong(path) for name, path in pictures.items()} == dict.fromkeys(
        every_format.FORMATS, ""
    )
    # Without a model its exit code is not 0.
    listed = json.loads(
        subprocess.run(
            [place / "bin/fm", "available", "--json"],
            env=environment(),
            capture_output=True,
            check=False,
        ).stdout
    )
    assert listed["build"]["image_formats"] == list(every_format.FORMATS)


def test_the_extra_for_heic(wheel: Path, tmp_path: Path) -> None:
    """`pip install openfm[heif]` on a machine that has no libheif of its own."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin/python"
    run(python, "-m", "pip", "install", "-q", "--only-binary", ":all:", f"{wheel}[heif]")
    # The loader finds this one first.
    (tmp_path / "libheif.so.1").write_bytes(b"no library")
    pictures = every_format.make(tmp_path)
    told = told_of(python, pictures, LD_LIBRARY_PATH=str(tmp_path))
    assert told["formats"] == [name for name in every_format.FORMATS if name != "avif"]
    assert told["heic"] == list(every_format.SIZE) and every_format.wrong(pictures["heic"]) == ""
    assert "AV1" in str(told["avif"]) and "libheif1" in str(told["avif"])
    assert str(pictures["avif"]) in str(told["avif"])

    run(python, "-m", "pip", "uninstall", "-q", "-y", "pi-heif")
    told = told_of(python, pictures, LD_LIBRARY_PATH=str(tmp_path))
    assert "pi-heif" in str(told["heic"]) and "libheif1" in str(told["heic"])


def test_an_editable_install_uses_the_source_tree(source: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin/python"
    before = untouched(source)
    run(
        *[python, "-m", "pip", "install", "-q", "--no-deps", "-e", source],
        *["--config-settings", f"prebuilt-library={LIBRARY}"],
    )
    assert untouched(source) - before == {
        "python/openfm/lib",
        "python/openfm/lib/libFoundationModels.so",
        "python/openfm/lib/libFoundationModels.so.1",
    }
    package, library, version = run(python, "-c", CHECK, cwd=tmp_path).split()
    assert Path(package) == source / "python/openfm"
    assert Path(library).is_relative_to(source)
    assert version == "0.1.0"
    assert "respond" in run(place / "bin/fm", "--help")


def test_an_sdist_is_made_without_a_compiler(
    source: Path, backend_python: Path, tmp_path: Path
) -> None:
    """And holds what a build and the tests need, but nothing that was built."""
    before = untouched(source)
    code = "import sys, build_backend; print(build_backend.build_sdist(sys.argv[1]))"
    made = run(backend_python, "-c", code, tmp_path, cwd=source, PATH="/nonexistent")
    archive = tmp_path / made.split()[-1]
    assert archive.name == "openfm-0.1.0.tar.gz"
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        modes = {member.name.partition("/")[2]: member.mode for member in tar.getmembers()}
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout.decode()
    wanted = {name for name in listed.split("\0") if name and not name.startswith(".git")}
    assert {name for name in wanted if (source / name).exists()} - names == set()
    assert modes["scripts/build"] & 0o100
    assert not [name for name in names if name.endswith((".so", ".so.1", ".pyc"))]
    left = {name for name in untouched(source) - before if not name.startswith("python/openfm/lib")}
    assert left == set()


def hook(source: Path, settings: str, **more: str) -> subprocess.CompletedProcess[str]:
    code = f"import build_backend; build_backend.build_wheel('/nonexistent', {settings})"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=source,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )


def only(folder: Path, *programs: str) -> str:
    """A PATH with nothing but those programs."""
    folder.mkdir()
    for program in programs:
        found = shutil.which(program)
        assert found is not None
        (folder / program).symlink_to(found)
    return str(folder)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("openfm cannot be built: "), done.stderr
    return last


def test_what_is_missing_is_one_sentence(source: Path, tmp_path: Path) -> None:
    done = hook(source, "{'prebuilt-library': ['/a', '/missing.so']}")
    assert "/missing.so is not there" in sentence(done)

    done = hook(source, f"{{'prebuilt-library': {str(LIBRARY)!r}}}", PATH="/nonexistent")
    assert "no C compiler: cc" in sentence(done)

    done = hook(source, f"{{'prebuilt-library': {str(LIBRARY)!r}}}", CC="no-such-cc -O2")
    assert "no C compiler: no-such-cc" in sentence(done)


def test_bad_settings_are_one_sentence(source: Path, backend_python: Path) -> None:
    done = hook(source, "{'build-type': 'fast'}")
    assert "build-type is 'fast'" in sentence(done)
    done = hook(source, "{'linker-flags': '-L \"x'}")
    assert "linker-flags is no list of words" in sentence(done)
    # A Python without the tools that gather the libraries.
    code = (
        "import build_backend; build_backend.build_wheel('/nonexistent', "
        f"{{'prebuilt-library': {str(LIBRARY)!r}}})"
    )
    done = subprocess.run(
        [backend_python, "-c", code],
        cwd=source,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "auditwheel>=" in sentence(done)


def test_missing_swift_is_one_sentence(source: Path, tmp_path: Path) -> None:
    """Where it is in its usual place, with an empty folder over that."""
    path = only(tmp_path / "bin", "cc", "bash")
    if not Path("/opt/swift/usr/bin/swift").exists():
        assert "install Swift 6.3" in sentence(hook(source, "None", PATH=path))
        return
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("Swift is in its usual place, and there is no mount namespace to hide it")
    code = "import build_backend; build_backend.build_wheel('/nonexistent')"
    script = 'mount -t tmpfs none /opt/swift && export PATH="$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, path, sys.executable, "-c", code],
        cwd=source,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "install Swift 6.3" in sentence(done)


def test_a_failing_build_shows_the_compiler_and_one_sentence(source: Path, tmp_path: Path) -> None:
    broken = tmp_path / "source"
    shutil.copytree(source, broken)
    (broken / "scripts/build").write_text("echo 'error: the compiler spoke' >&2\nexit 1\n")
    done = hook(broken, "None")
    if shutil.which("swift") is None and not Path("/opt/swift/usr/bin/swift").exists():
        assert "install Swift" in sentence(done)
    else:
        assert "scripts/build --release failed" in sentence(done)
        assert "error: the compiler spoke" in done.stderr
