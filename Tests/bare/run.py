"""The wheel and the installed C files in a Debian that has nothing else. For root; debootstrap.

    python Tests/bare/run.py [FOLDER]

makes a minbase Debian with python3 in FOLDER (kept where it is named, a temporary one otherwise),
puts the wheel in with pip and the C files beside it, and asks a scripted server on loopback about a
picture: over http, and over https with each place that certificates may come from. Pictures of all
formats are read, and last the Debian package comes and goes, with what it depends on. Ends with
"N passed, N failed".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/server"), str(ROOT / "Tests/bare")]
import every_format  # noqa: E402
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


def python_version(root: Path) -> str:
    """Of the Debian's python3, as pip takes it: "3.11"."""
    return os.readlink(root / "usr/bin/python3").removeprefix("python")


def files(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for folder in ("etc", "opt", "usr", "var/lib/dpkg/info")
        for path in (root / folder).rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


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
    # The chroot's Python is Debian's; its platform is this one's.
    pi_heif = run(
        *[sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", pip, "pi-heif"],
        *["--only-binary", ":all:", "--python-version", python_version(root)],
    )
    check("pip download pi-heif", "exit" not in pi_heif, pi_heif)
    inside = root / "opt/test"
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir(parents=True)
    programs_of_ours = [ROOT / "Tests/bare/hello.py", ROOT / "Tests/bare/every_format.py"]
    for file in [wheels / name, *pip.iterdir(), PHOTO, *programs_of_ours]:
        shutil.copy(file, inside)
    pictures = every_format.make(inside)
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

    install("uninstall", "-y", "-q", "openfm", "certifi", "pi-heif")
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

    def prepared() -> dict[str, str]:
        """What is wrong with each format; an error where it could not be read."""
        names = [f"/opt/test/{path.name}" for path in pictures.values()]
        told = chroot("python3", "/opt/test/every_format.py", *names)
        try:
            answers = json.loads(told)["pictures"]
        except (ValueError, KeyError):
            return dict.fromkeys(pictures, told)
        found = {}
        for name, path in pictures.items():
            answer = answers[f"/opt/test/{path.name}"]
            found[name] = answer if isinstance(answer, str) else every_format.wrong(path)
        return found

    found = prepared()
    for name in every_format.FORMATS[:5]:
        check(f"{name} is read", found[name] == "", found[name])
    for name, package in (("heic", "pi-heif"), ("avif", "libheif1")):
        check(f"{name} names what to install", package in found[name], found[name])
    pi_heif_wheel = next(file.name for file in pip.iterdir() if file.name.startswith("pi_heif-"))
    told = install("install", "-q", "--no-deps", "--no-index", f"/opt/test/{pi_heif_wheel}")
    check("pip install pi-heif", "exit" not in told, told)
    found = prepared()
    check("heic is read with pi-heif", found["heic"] == "", found["heic"])
    clear = "AV1" in found["avif"] and "libheif1" in found["avif"]
    check("avif names libheif1 beside pi-heif", clear, found["avif"])

    # The Debian package. Its dependencies come over the network, as debootstrap's packages did.
    install("uninstall", "-y", "-q", "openfm", "pi-heif")
    shutil.rmtree(fm)
    told = run(ROOT / "scripts/package-deb", place / "deb")
    (package,) = (place / "deb").glob("*.deb")
    shutil.copy(package, inside / "openfm.deb")
    before = files(root)
    apt = ("apt-get", "-q", "-y", "-o", "APT::Sandbox::User=root", "--no-install-recommends")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    sbin = "/usr/sbin:/sbin:/usr/bin:/bin"
    chroot(*apt, "update", PATH=sbin, **quiet)
    told = chroot(*apt, "install", "/opt/test/openfm.deb", PATH=sbin, **quiet)
    check("apt-get install openfm.deb", "exit" not in told, told[-2000:])
    told = chroot("/usr/bin/fm", "--version")
    check("fm of the Debian package", told.startswith("fm (OpenFM)"), told)
    told = chroot("/usr/bin/fm", "image", "--json", photo)
    check("fm image of the Debian package", '"width"' in told, told)
    told = run(
        *["cc", ROOT / "Tests/bare/hello.c", "-o", inside / "hello-deb"],
        f"-I{root}/usr/include/openfm",
        *[f"-L{path.parent}" for path in root.glob("usr/lib/*/libFoundationModels.so")],
        *["-lFoundationModels", "-Wl,--allow-shlib-undefined"],
    )
    check("a C program is built with the Debian package", told == "", told)
    with ScriptedServer() as server:
        told = chroot("/opt/test/hello-deb", server.base_url, photo)
    check("C with the Debian package: an answer", answered("C", told), told)
    told = chroot(*apt, "purge", "openfm", PATH=sbin, **quiet)
    check("apt-get purge openfm", "exit" not in told, told[-2000:])
    told = chroot(*apt, "autoremove", "--purge", PATH=sbin, **quiet)
    ours = re.compile(r"openfm|FoundationModels|/fm(\.|$)|/_fm$")
    left = {path for path in files(root) - before if ours.search(path) and "/opt/test/" not in path}
    check("nothing of it is left", not left, "\n".join(sorted(left)))
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("Tests/bare/run.py needs root and debootstrap")
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1]).resolve()) != 0)
    with tempfile.TemporaryDirectory(prefix="openfm-bare-") as folder:
        sys.exit(main(Path(folder)) != 0)
