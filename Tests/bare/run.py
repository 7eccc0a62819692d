"""The wheel and the installed C files in a Debian that has nothing else. For root; debootstrap.

    python Tests/bare/run.py [FOLDER]

makes a minbase Debian with python3 in FOLDER (kept where it is named, a temporary one otherwise),
puts the wheel in with pip and the C files beside it, and asks a scripted server on loopback about a
picture: over http, and over https with each place that certificates may come from. Ends with
"N passed, N failed".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests/server"))
from scripted_server import ScriptedServer  # noqa: E402

PHOTO = ROOT / "Examples/photos/waterfall-orientation-6.jpg"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
passed = failed = 0


def check(name: str, condition: bool, told: str) -> None:
    global passed, failed
    passed += condition
    failed += not condition
    print(f"{'ok    ' if condition else 'FAILED'} {name}" + ("" if condition else f"\n{told}"))


def run(*command: object, **options: object) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    return str(done.stdout) + (f"(exit {done.returncode})" if done.returncode else "")


def make_certificate(place: Path) -> tuple[str, str]:
    """A certificate for loopback that is its own authority, and its key."""
    certificate, key = str(place / "ca.pem"), str(place / "key.pem")
    told = run(
        *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"],
        *["-subj", "/CN=openfm test", "-addext", "subjectAltName=IP:127.0.0.1"],
        *["-keyout", key, "-out", certificate],
    )
    if not Path(certificate).exists():
        sys.exit(f"openssl failed:\n{told}")
    return certificate, key


def debian(folder: Path) -> None:
    """A minbase Debian with python3, of the release and from the source that this machine uses."""
    if (folder / "usr/bin/python3").exists():
        return
    lines = run(
        "apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(CODENAME)",
        "Created-By: Packages",
    ).splitlines()  # fmt: skip
    uri, release = next(
        line.split()[1:]
        for line in lines
        if line.startswith("Debian ") and "-" not in line.split()[2]
    )
    told = run(
        *["debootstrap", "--variant=minbase", "--include=python3", release, folder, uri],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
    if not (folder / "usr/bin/python3").exists():
        sys.exit(f"debootstrap failed:\n{told[-2000:]}")


def main(place: Path) -> int:
    root = place / "debian"
    debian(root)
    for name in ("swift", "curl", "jpeg"):
        found = run("find", root / "usr/lib", "-name", f"*{name}*.so*")
        check(f"the Debian has no {name}", name not in found, found)
    check("the Debian has no certificates", not (root / BUNDLE[1:]).exists(), BUNDLE)

    # pip itself comes as the wheel that this Python would make a venv with.
    wheels = place / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    library = ROOT / ".build/openfm/lib/libFoundationModels.so.1"
    code = "import sys, build_backend as b; b.build_wheel(sys.argv[1])"
    environment = {**os.environ, "OPENFM_PREBUILT_LIBRARY": str(library)}
    told = run(sys.executable, "-c", code, wheels, env=environment, cwd=ROOT)
    made = list(wheels.glob("*.whl"))
    if not made:
        sys.exit(f"there is no wheel:\n{told}")
    name = made[0].name
    pip = place / "pip"
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", pip, "pip", "certifi")
    inside = root / "opt/test"
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir(parents=True)
    for file in [wheels / name, *pip.iterdir(), PHOTO, ROOT / "Tests/bare/hello.py"]:
        shutil.copy(file, inside)
    pip_wheel = next(file.name for file in pip.iterdir() if file.name.startswith("pip-"))
    certifi = next(file.name for file in pip.iterdir() if file.name.startswith("certifi-"))

    def chroot(*command: object, **more: str) -> str:
        environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/opt/test", **more}
        # As everywhere, /proc is there: a program finds its library by where it lies itself.
        script = 'mount -t proc proc "$0/proc" && exec "$@"'
        enter = ["unshare", "-m", "sh", "-c", script, root]
        program = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")
        inside = ["env", "-i", *[f"{k}={v}" for k, v in environment.items()], "LC_ALL=C.UTF-8"]
        return run(*enter, program, root, *inside, *command)

    def install(*arguments: str) -> str:
        base = ["python3", f"/opt/test/{pip_wheel}/pip"]
        return chroot(
            *base, *arguments, PIP_BREAK_SYSTEM_PACKAGES="1", PIP_ROOT_USER_ACTION="ignore"
        )

    install("uninstall", "-y", "-q", "openfm", "certifi")
    told = install("install", "-q", "--no-index", f"/opt/test/{name}")
    check("pip install WHEEL", "exit" not in told, told)
    told = chroot("fm", "--version")
    check("fm --version", told.startswith("fm (OpenFM)"), told)

    environment = {**os.environ, "DESTDIR": str(root)}
    told = run(ROOT / "scripts/install", "--prefix", "/opt/fm", env=environment)
    check("scripts/install", "exit" not in told, told)
    fm = root / "opt/fm"
    told = run(
        *["cc", ROOT / "Tests/bare/hello.c", "-o", inside / "hello", f"-I{fm}/include/openfm"],
        *[f"-L{fm}/lib", "-lFoundationModels", "-Wl,-rpath,/opt/fm/lib"],
        "-Wl,--allow-shlib-undefined",
    )
    check("a C program is built", told == "", told)

    photo = f"/opt/test/{PHOTO.name}"
    programs = {
        "Python": ["python3", "/opt/test/hello.py"],
        "C": ["/opt/test/hello"],
        "shell": ["fm", "respond", "What is this?", "--image", photo, "--model-url"],
    }

    def ask(url: str, **more: str) -> dict[str, str]:
        return {
            language: chroot(*command, url, *([] if language == "shell" else [photo]), **more)
            for language, command in programs.items()
        }

    def answered(language: str, told: str) -> bool:
        # The server repeats the question.
        return "What is this?" in told and "rror" not in told and "exit" not in told

    with ScriptedServer() as server:
        for language, told in ask(server.base_url).items():
            check(f"{language}: an answer about a picture", answered(language, told), told)

    certificate, key = make_certificate(place)
    with ScriptedServer(tls=(certificate, key)) as server:
        for language, told in ask(server.base_url).items():
            clear = "ca-certificates" in told and "SSL_CERT_FILE" in told
            check(f"{language}: https without certificates is refused clearly", clear, told)

        shutil.copy(certificate, inside / "ca.pem")
        for language, told in ask(server.base_url, SSL_CERT_FILE="/opt/test/ca.pem").items():
            check(f"{language}: https with SSL_CERT_FILE", answered(language, told), told)

        install("install", "-q", "--no-index", f"/opt/test/{certifi}")
        found = chroot("python3", "-c", "import certifi; print(certifi.where())").strip()
        bundle = root / found.lstrip("/")
        bundle.write_text(bundle.read_text() + Path(certificate).read_text())
        told = ask(server.base_url)["Python"]
        check("Python: https with certifi alone", answered("Python", told), told)
        install("uninstall", "-y", "-q", "certifi")

        system = root / BUNDLE[1:]
        system.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(certificate, system)
        for language, told in ask(server.base_url).items():
            check(f"{language}: https with the system's bundle", answered(language, told), told)
        system.unlink()
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("Tests/bare/run.py needs root and debootstrap")
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1]).resolve()) != 0)
    with tempfile.TemporaryDirectory(prefix="openfm-bare-") as folder:
        sys.exit(main(Path(folder)) != 0)
