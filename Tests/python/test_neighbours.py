"""The library beside others in one process: OpenSSL and JPEG users, Swift, itself, CPython in C."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import ScriptedServer

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / ".build/openfm/lib/libFoundationModels.so.1"
PHOTO = ROOT / "Examples/photos/waterfall-orientation-6.jpg"


def run(*command: object, timeout: float = 60, **more: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScriptedServer, Path]]:
    """A server with TLS, and the certificate to trust."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"],
            *["-subj", "/CN=openfm test", "-addext", "subjectAltName=IP:127.0.0.1"],
            *["-keyout", key, "-out", certificate],
        ],
        check=True,
        capture_output=True,
    )
    with ScriptedServer(tls=(str(certificate), str(key))) as server:
        yield server, certificate


USERS = """
def users(url, certificate, photo):
    import hashlib, io, ssl, urllib.request
    import numpy
    from PIL import Image
    context = ssl.create_default_context(cafile=certificate)
    with urllib.request.urlopen(url + "/v1/models", context=context) as answer:
        assert answer.status == 200
    digest = hashlib.new("sha256", b"abc").hexdigest()
    assert digest.startswith("ba7816bf")
    assert hashlib.scrypt(b"a", salt=b"b", n=2, r=1, p=1)
    pixels = numpy.asarray(Image.open(photo).convert("RGB").resize((64, 48)))
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
    back = numpy.asarray(Image.open(io.BytesIO(buffer.getvalue())), numpy.int16)
    assert abs(back - pixels).mean() < 6
    return ssl.OPENSSL_VERSION, digest, pixels.sum()
"""
OURS = """
def ours(url, certificate, photo):
    import asyncio
    import openfm as fm
    async def ask():
        model = fm.ChatCompletionsLanguageModel(url, "any", supports_images=True)
        session = fm.LanguageModelSession(model=model)
        return await session.respond([fm.ImageAttachment(photo), "What is this?"])
    assert "What is this?" in str(asyncio.run(ask()))
    return bytes(fm.prepare_image(photo).data)
"""


@pytest.mark.parametrize("first", ["users", "ours"])
def test_tls_digests_and_pictures_of_others_are_unharmed(
    secure: tuple[ScriptedServer, Path], first: str
) -> None:
    """Whoever is loaded first, both do TLS, digests and JPEG, and the same before and after."""
    server, certificate = secure
    order = ["users", "ours", "users"] if first == "users" else ["ours", "users", "ours"]
    calls = "\n".join(f"results.append({name}(*arguments))" for name in order)
    code = (
        f"{USERS}\n{OURS}\nimport sys\narguments, results = sys.argv[1:], []\n{calls}\n"
        "assert results[0] == results[2]; print('unharmed')"
    )
    told = run(
        *[sys.executable, "-c", code, server.base_url, certificate, PHOTO],
        SSL_CERT_FILE=str(certificate),
    )
    assert told == "unharmed\n"


SWIFT = """
@_cdecl("neighbour_sum")
public func neighbourSum(_ count: Int32) -> Int32 {
  final class Box: @unchecked Sendable { var sum: Int32 = 0 }
  let box = Box()
  let semaphore = Semaphore()
  Task {
    box.sum = await withTaskGroup(of: Int32.self) { group in
      for value in 1...count { group.addTask { value } }
      return await group.reduce(0, +)
    }
    semaphore.signal()
  }
  semaphore.wait()
  return box.sum
}
"""


@pytest.fixture(scope="module")
def swift_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another Swift library, with the toolchain's own runtime and Swift's worker threads."""
    folder = tmp_path_factory.mktemp("swift")
    source = folder / "Neighbour.swift"
    source.write_text(
        "import Glibc\n"
        "final class Semaphore: @unchecked Sendable {\n"
        "  private let pointer = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)\n"
        "  init() { sem_init(pointer, 0, 0) }\n"
        "  func signal() { sem_post(pointer) }\n"
        "  func wait() { sem_wait(pointer) }\n"
        "}\n" + SWIFT
    )
    swiftc = shutil.which("swiftc") or "/opt/swift/usr/bin/swiftc"
    library = folder / "libNeighbour.so"
    runtime = Path(swiftc).resolve().parents[1] / "lib/swift/linux"
    subprocess.run(
        [
            *[swiftc, "-emit-library", "-Onone", source, "-o", library],
            *["-Xlinker", "-rpath", "-Xlinker", runtime],
        ],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    return library


@pytest.mark.parametrize("first", ["neighbour", "ours"])
def test_another_swift_library_is_unharmed(
    secure: tuple[ScriptedServer, Path], swift_library: Path, first: str
) -> None:
    server, certificate = secure
    code = (
        f"{OURS}\nimport ctypes, sys\n"
        "def neighbour(*_):\n"
        "    return ctypes.CDLL(sys.argv[4]).neighbour_sum(1000)\n"
        f"for name in [{first!r}, 'ours', 'neighbour', {first!r}]:\n"
        "    result = globals()[name](*sys.argv[1:4])\n"
        "    assert name == 'ours' or result == 500500\n"
        "print('unharmed')\n"
    )
    told = run(
        *[sys.executable, "-c", code, server.base_url, certificate, PHOTO, swift_library],
        SSL_CERT_FILE=str(certificate),
    )
    assert told == "unharmed\n"


def test_two_copies_know_nothing_of_each_other(tmp_path: Path) -> None:
    """Loaded from two places: each works, and refuses what the other one made."""
    copies = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(LIBRARY, tmp_path / name)
        copies.append(ctypes.CDLL(str(tmp_path / name / LIBRARY.name)))
    assert copies[0].FMVersion != copies[1].FMVersion
    prompts = []
    for copy in copies:
        copy.FMComposedPromptInitialize.restype = ctypes.c_void_p
        copy.FMDebugLiveObjects.restype = ctypes.c_int64
        copy.FMLastErrorDescription.restype = ctypes.c_char_p
        copy.FMComposedPromptAddTextBytes.argtypes = [
            *[ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t],
            *[ctypes.c_void_p, ctypes.c_void_p],
        ]
        copy.FMComposedPromptAddTextBytes.restype = ctypes.c_bool
        copy.FMRelease.argtypes = [ctypes.c_void_p]
        prompts.append(copy.FMComposedPromptInitialize())
    one, two = copies
    # More in one than in the other, so that a reference of it is none there.
    more = [one.FMComposedPromptInitialize() for _ in range(100)]
    assert one.FMDebugLiveObjects(3) == 101 and two.FMDebugLiveObjects(3) == 1
    assert one.FMComposedPromptAddTextBytes(prompts[0], b"a", 1, None, None)
    assert two.FMComposedPromptAddTextBytes(prompts[1], b"a", 1, None, None)
    assert not two.FMComposedPromptAddTextBytes(more[-1], b"a", 1, None, None)
    assert two.FMLastErrorCode() == 11 and two.FMLastErrorDescription()
    assert one.FMLastErrorCode() == 0
    for copy, prompt in [(one, prompt) for prompt in [*more, prompts[0]]] + [(two, prompts[1])]:
        copy.FMRelease(prompt)
    assert one.FMDebugLiveObjects(0) == two.FMDebugLiveObjects(0) == 0


# ---- A C program with CPython inside


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        pytest.skip("no Python.h; install python3-dev")
    program = tmp_path_factory.mktemp("host") / "host"
    lib = sysconfig.get_config_var("LIBDIR")
    built = ROOT / ".build/openfm"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    done = subprocess.run(
        [
            *["cc", "-std=c11", "-O1", "-D_GNU_SOURCE", ROOT / "Tests/embedding/host.c"],
            *["-o", program, f"-I{include}", f"-I{built / 'include'}"],
            *[f"-L{built / 'lib'}", "-lFoundationModels", f"-Wl,-rpath,{built / 'lib'}"],
            *[f"-L{lib}", f"-lpython{version}", f"-Wl,-rpath,{lib}"],
            *["-Wl,--export-dynamic", "-lm", "-ldl"],
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


def test_a_c_host_with_cpython_inside_exits_cleanly(
    running_server: ScriptedServer, host: Path
) -> None:
    """Both sides stream at once, the interpreter ends first: every time, without a crash."""
    for _ in range(100 if os.environ.get("OPENFM_SOAK") else 4):
        told = run(
            *[host, running_server.base_url, ROOT / "python"],
            OPENFM_LIBRARY=str(LIBRARY),
            PYTHONHOME=sys.base_prefix,
        )
        lines = told.splitlines()
        # The two streams of Python have one text, whole.
        assert [line for line in lines if line.startswith("python: ")] == lines[:1], told
        # The one of C is whole too, or was ended in good order with the interpreter.
        assert lines[1].startswith("c: ") and "still running" not in lines[1], told
        if "(success)" in lines[1]:
            assert lines[1].removeprefix("c: ").removesuffix(" (success)") in lines[0]
