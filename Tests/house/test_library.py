"""What the release library exports, what it needs, and that it runs where no Swift is."""

import ctypes
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from headers import enum, functions, status_name


def run(*command, **options):
    return subprocess.run(
        [str(part) for part in command], check=True, capture_output=True, text=True, **options
    ).stdout


def exported(library):
    """Names of the defined dynamic symbols, without the library's own version nodes."""
    rows = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    return {row[2].split("@")[0] for row in rows if row[1] != "A"}


def test_exports_what_the_headers_declare_and_nothing_else(root, library):
    declared = functions(root / "include/FoundationModels.h") | functions(root / "include/OpenFM.h")
    names = exported(library)
    assert names - declared == set(), "exported, in no header"
    assert declared - names == set(), "declared, not exported"


def test_soname_and_needed(root, library):
    dynamic = run("readelf", "-d", "-W", library)
    assert re.findall(r"\(SONAME\).*\[(.*)\]", dynamic) == ["libFoundationModels.so.1"]
    # Beside itself is a good place to look; a path of the build machine is none.
    assert set(re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", dynamic)) <= {"$ORIGIN"}
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert "libc.so.6" in needed
    forbidden = re.compile(r"swift|Foundation|dispatch|BlocksRuntime|icu", re.I)
    assert [name for name in needed if forbidden.search(name)] == []
    # docs/DEPENDENCIES.md speaks of each library that is linked.
    system = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
    text = (root / "docs/DEPENDENCIES.md").read_text()
    known = set(re.findall(r"`(lib[\w+-]+\.so\.\d+)`", text))
    assert set(needed) - system - known == set()


def test_tls_and_the_transport_are_linked_in(library):
    """A private OpenSSL and libcurl: the host's may be missing, or another version."""
    needed = run("readelf", "-d", "-W", library)
    assert not re.search(r"libcurl|libssl|libcrypto|nghttp2", needed)
    lib = ctypes.CDLL(str(library))
    lib.FMCopyBuildInfoJSON.restype = ctypes.c_char_p
    told = json.loads(lib.FMCopyBuildInfoJSON())
    assert told["tls"].startswith("OpenSSL/3.")
    assert told["http2"] is True
    assert told["unix_sockets"] is True
    assert set(told["linked"]) >= {"curl", "libwebp", "nghttp2", "openssl", "swift", "zimg"}


def test_what_is_slow_to_bind_is_linked_in(library):
    """libstdc++ and zimg have thousands of symbols of their own to look up, which, as shared ones,
    were half of the time that opening takes. Benchmarks/startup.py has the figures."""
    assert not re.search(r"libstdc\+\+|libzimg|libwebp", run("readelf", "-d", "-W", library))


def test_needs_no_newer_glibc_than_the_wheel_promises(library):
    """2.34 is that of RHEL 9; Debian 12, where this is built, has 2.36."""
    versions = re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", library))
    assert max(int(minor) for minor in versions) <= 34


def test_the_hosts_openssl_configuration_is_not_read(library, tmp_path):
    """A configuration that would fail any OpenSSL that reads it."""
    config = tmp_path / "openssl.cnf"
    config.write_text(
        "openssl_conf = start\n[start]\nproviders = list\n[list]\nmissing = section\n"
        "[section]\nmodule = /nonexistent/provider.so\nactivate = 1\n"
    )
    trace = tmp_path / "trace"
    code = (
        "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); "
        "lib.FMCopyBuildInfoJSON.restype = ctypes.c_char_p; lib.FMCopyBuildInfoJSON(); "
        "lib.FMImageInspect.restype = ctypes.c_bool; info = ctypes.create_string_buffer(256); "
        "assert lib.FMImageInspect(sys.argv[2].encode(), 0, info, None, None)"
    )
    picture = Path(__file__).resolve().parents[2] / "Examples/photos/waterfall-orientation-6.jpg"
    command = [sys.executable, "-I", "-c", code, library, picture]
    environment = {"PATH": "/usr/bin:/bin", "OPENSSL_CONF": str(config)}
    run(*command, env=environment)
    if shutil.which("strace"):
        run("strace", "-f", "-o", trace, "-e", "trace=openat", *command, env=environment)
        assert "openssl.cnf" not in trace.read_text()


def test_all_it_needs_is_found_outside_the_toolchain(library):
    lines = run("ldd", library, env={"PATH": "/usr/bin:/bin"})
    assert "not found" not in lines
    assert not re.search(r"libswift|libFoundation[^M]|libdispatch", lines), lines


def test_loads_with_an_empty_environment(library):
    code = (
        "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); "
        "lib.FMVersion.restype = ctypes.c_char_p; print(lib.FMVersion().decode())"
    )
    assert re.fullmatch(
        r"\d+\.\d+\.\d+\S*\n", run("env", "-i", sys.executable, "-I", "-c", code, library)
    )


def test_runs_with_the_toolchain_out_of_sight(library):
    """A mount namespace with an empty folder over the toolchain: nothing reads it at run time."""
    swift = shutil.which("swift")
    assert swift is not None
    # .../usr/bin/swift -> the folder that holds the toolchain's usr.
    toolchain = str(Path(swift).resolve().parents[2])
    namespace = subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
    if toolchain in ("/", "/usr") or not namespace:
        # No mount namespace to be had (no root, or a plain chroot): the loader's own trace is the
        # next best witness.
        trace = subprocess.run(
            [sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", library],
            check=True,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "LD_DEBUG": "files"},
        ).stderr
        assert "libFoundationModels" in trace
        assert not re.search(r"libswift|libdispatch|libFoundation(Essentials)?\.so", trace)
        return
    code = (
        "import ctypes, os, sys; "
        f"assert os.listdir({toolchain!r}) == [], 'the toolchain is still in sight'; "
        "lib = ctypes.CDLL(sys.argv[1]); lib.FMVersion.restype = ctypes.c_char_p; "
        "lib.FMSystemLanguageModelGetDefault.restype = ctypes.c_void_p; "
        "model = lib.FMSystemLanguageModelGetDefault(); assert model; "
        "lib.FMRelease(ctypes.c_void_p(model)); print(lib.FMVersion().decode())"
    )
    script = f'mount -t tmpfs none "{toolchain}" && exec "$@"'
    out = run("unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-I", "-c", code, library)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", out)


def test_every_status_has_its_name(root, library):
    lib = ctypes.CDLL(str(library))
    lib.FMStatusName.restype = ctypes.c_char_p
    members = enum(root / "include/OpenFM.h", "FMStatus")
    names = {value: lib.FMStatusName(value).decode() for _, value in members}
    assert names == {value: status_name(name) for name, value in members}
    unlisted = [code for code in range(-2, 300) if code not in names]
    assert {lib.FMStatusName(code) for code in unlisted} == {b"unknown"}


def test_the_command_finds_its_library_wherever_it_lies(root, tmp_path):
    """bin/fm beside lib/, or with the library in its own folder; no LD_LIBRARY_PATH."""
    built = root / ".build/openfm"
    for place in ("lib", "bin"):
        home = tmp_path / place
        (home / "bin").mkdir(parents=True)
        (home / place).mkdir(exist_ok=True)
        shutil.copy(built / "bin/fm", home / "bin/fm")
        shutil.copy(built / "lib/libFoundationModels.so.1", home / place)
        out = run("env", "-i", home / "bin/fm", "--version")
        assert re.search(r"\d+\.\d+\.\d+", out)
