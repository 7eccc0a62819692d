"""What scripts/install and scripts/package-deb lay out, as programmers, shells and dpkg use it."""

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
#include <FoundationModels.h>
#include <OpenFM.h>
#include <stdio.h>
int main(int argc, char **argv) {
  FMImageInfo info;
  if (argc > 1 && !FMImageInspect(argv[1], 0, &info, NULL, NULL)) {
    puts(FMLastErrorDescription());
    return 1;
  }
  printf("%s %d\\n", FMVersion(), argc > 1 ? info.orientation : 0);
  return 0;
}
"""
PHOTO = ROOT / "Examples/photos/waterfall-orientation-6.jpg"


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(**more):
    """Nothing that would find the build instead of what is installed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENFM_", "LD_", "PKG_"))}
    return {**kept, **more}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("install") / "a place"
    run(ROOT / "scripts/install", "--prefix", folder, env=environment())
    return folder


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """As a packager does: laid under another root than it will lie in, with its own libdir."""
    root = tmp_path_factory.mktemp("staged")
    run(
        *[ROOT / "scripts/install", "--prefix=/usr", "--libdir=lib/here", "--system-libraries"],
        env=environment(DESTDIR=str(root)),
    )
    return root


@pytest.fixture
def pkg_config(prefix, tmp_path):
    """An environment in which pkg-config finds what is installed."""
    plain = tmp_path / "prefix"
    plain.symlink_to(prefix)  # pkg-config quotes blanks for a shell, which is not what is tested
    text = (prefix / "lib/pkgconfig/FoundationModels.pc").read_text()
    folder = tmp_path / "pkgconfig"
    folder.mkdir()
    (folder / "FoundationModels.pc").write_text(text.replace(str(prefix), str(plain)))
    return environment(PKG_CONFIG_PATH=str(folder))


def test_a_program_builds_and_runs_with_pkg_config(pkg_config, tmp_path):
    """`cc app.c $(pkg-config --cflags --libs FoundationModels)`, and nothing else."""
    (tmp_path / "app.c").write_text(PROGRAM)
    run(
        *["sh", "-ec", "cc app.c -o app $(pkg-config --cflags --libs FoundationModels)"],
        cwd=tmp_path,
        env=pkg_config,
    )
    assert run(tmp_path / "app", PHOTO, env={}) == "0.1.0 6\n"
    version = run("pkg-config", "--modversion", "FoundationModels", env=pkg_config)
    assert version == "0.1.0\n"


@pytest.mark.parametrize("page", ["README.md", "docs/guide/c-api.md"])
def test_the_lines_that_the_pages_give_build_a_program(page, prefix, pkg_config, tmp_path):
    text = (ROOT / page).read_text()
    lines = re.findall(r"^cc .*pkg-config.*$", text, re.M)
    assert lines
    for line in lines:
        source = tmp_path / re.search(r"\S+\.c\b", line)[0]
        shutil.copy(ROOT / "Examples/c/describe.c", source)
        run("sh", "-ec", line, cwd=tmp_path, env=pkg_config)
        made = re.search(r"-o (\S+)", line)
        program = tmp_path / (made[1] if made else "a.out")
        done = subprocess.run([program], env={}, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, "usage: describe PICTURE [PROMPT]\n")
        program.unlink()
    for lists in re.findall(r"^```cmake\n(.*?)^```$", text, re.M | re.S):
        if shutil.which("cmake") is None:
            pytest.skip("no cmake")
        (tmp_path / "CMakeLists.txt").write_text(lists)
        run("cmake", "-S", tmp_path, "-B", tmp_path / "out", f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", tmp_path / "out")
        done = subprocess.run([tmp_path / "out/describe"], env={}, check=False)
        assert done.returncode == 2


def test_the_command_runs_where_it_lies_and_when_moved(prefix, tmp_path):
    assert "0.1.0" in run(prefix / "bin/fm", "--version", env={})
    moved = tmp_path / "moved"
    shutil.copytree(prefix, moved, symlinks=True)
    assert "0.1.0" in run(moved / "bin/fm", "--version", env={})


def test_the_installed_command_finds_the_engine_of_the_python_on_the_path(prefix, tmp_path):
    found = {"PATH": str(Path(sys.executable).parent), "HOME": str(tmp_path)}
    assert run(prefix / "bin/fm", "available", env=found).startswith("available: ")


def test_all_that_is_needed_beyond_the_system_comes_along(prefix):
    shown = run("ldd", prefix / "lib/libFoundationModels.so.1", env={"PATH": "/usr/bin:/bin"})
    found = dict(re.findall(r"^\s*(\S+) => (.+) \(0x", shown, re.M))
    outside = {name for name, path in found.items() if not Path(path).is_relative_to(prefix)}
    assert outside == {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libz.so.1"}
    papers = {path.stem for path in (prefix / "share/doc/openfm/libraries").iterdir()}
    assert len(papers) == len(list((prefix / "lib/openfm").iterdir()))


def test_a_staged_install_names_the_final_place(staged):
    text = (staged / "usr/lib/here/pkgconfig/FoundationModels.pc").read_text()
    assert "prefix=/usr\n" in text and str(staged) not in text
    assert "rpath" not in text
    library = staged / "usr/lib/here/libFoundationModels.so.1"
    assert not re.search(r"R(UN)?PATH", run("readelf", "-d", library))
    assert not re.search(r"R(UN)?PATH", run("readelf", "-d", staged / "usr/bin/fm"))
    assert not (staged / "usr/lib/here/openfm").exists()


def test_cmake_finds_it(prefix, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    (tmp_path / "app.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C)\n"
        "find_package(FoundationModels 0.1 REQUIRED)\nadd_executable(app app.c)\n"
        "target_link_libraries(app PRIVATE FoundationModels::FoundationModels)\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "out", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "out")
    assert run(tmp_path / "out/app", PHOTO, env={}) == "0.1.0 6\n"


# ---- The manual and the completions


def options_of(prefix):
    """Every command of `fm help` with its long options."""
    overview = run(prefix / "bin/fm", "help")
    names = set(re.findall(r"^  fm ([a-z]\S*)", overview, re.M)) - {"help"}
    return {
        name: set(
            re.findall(r"^  (?:-\w, |    )(--[\w-]+)", run(prefix / "bin/fm", "help", name), re.M)
        )
        for name in names
    }


def test_the_manual_tells_all_that_the_help_tells(prefix):
    page = prefix / "share/man/man1/fm.1"
    text = page.read_text().replace("\\-", "-")
    for command, options in options_of(prefix).items():
        assert options and f"fm {command}" in text
        for option in options:
            assert option in text, (command, option)
    if shutil.which("man"):
        shown = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True
        )
        assert (shown.returncode, shown.stderr) == (0, "")
        for title in ("NAME", "SYNOPSIS", "COMMANDS", "ENVIRONMENT", "EXIT STATUS"):
            assert re.search(rf"^{title}$", shown.stdout, re.M), title


def completed(prefix, *words):
    """What bash offers after those words."""
    script = (
        f". '{prefix}/share/bash-completion/completions/fm'; "
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fm; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return set(run("bash", "-c", script, "bash", *words).split("\n")) - {""}


def test_bash_completes_commands_options_and_files(prefix, tmp_path, monkeypatch):
    commands = options_of(prefix)
    assert completed(prefix, "fm", "") == {*commands, "help", "--help", "--version"}
    for command, options in commands.items():
        assert options <= completed(prefix, "fm", command, "--")
    (tmp_path / "a photo.jpg").touch()
    monkeypatch.chdir(tmp_path)
    assert completed(prefix, "fm", "respond", "--image", "a") == {"a photo.jpg"}
    assert completed(prefix, "fm", "respond", "--model", "") == set()
    assert completed(prefix, "fm", "model", "") == ACTIONS
    assert completed(prefix, "fm", "model", "p") == {"pull", "path"}
    assert completed(prefix, "fm", "model", "pull", "") == set()


ACTIONS = {"list", "pull", "path", "remove"}


def test_fish_completes_commands_options_and_files(prefix, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("no fish")
    folder = prefix / "share/fish/vendor_completions.d"

    def offered(line):
        script = f"set fish_complete_path '{folder}'; complete -C '{line}'"
        # It completes commands that are there.
        path = f"{prefix / 'bin'}:{os.environ['PATH']}"
        told = run("fish", "--no-config", "-c", script, cwd=tmp_path, env=environment(PATH=path))
        return {word.partition("\t")[0] for word in told.splitlines()}

    commands = options_of(prefix)
    assert offered("fm ") == {*commands, "help"}
    for command, options in commands.items():
        assert offered(f"fm {command} --") == options
    assert offered("fm model ") == ACTIONS
    (tmp_path / "photo.jpg").touch()
    assert offered("fm respond --image ph") == {"photo.jpg"}
    assert offered("fm respond --model ") == set()


def test_zsh_completes_commands_options_and_files(prefix, tmp_path):
    """In a terminal, as zsh's completion works in one only."""
    if shutil.which("zsh") is None:
        pytest.skip("no zsh")
    folder = prefix / "share/zsh/site-functions"
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 400, 0, 0))
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        cwd=tmp_path,
        env=environment(TERM="dumb", PS1="> ", HOME=str(tmp_path)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)

    def until(pattern):
        text, deadline = "", time.monotonic() + 30
        while not re.search(pattern, text):
            assert time.monotonic() < deadline, text
            if select.select([master], [], [], 0.2)[0]:
                text += os.read(master, 65536).decode(errors="replace")
        return text

    def offers(line, words):
        """Waits until the list of the line's end shows those words; the line is thrown away."""
        missing = set(words)
        for wait in (0.3, 1, 3, 9):
            os.write(master, f"{line}\t".encode())
            # A key that comes while the list is made would end that.
            text = ""
            while select.select([master], [], [], wait)[0]:
                text += os.read(master, 65536).decode(errors="replace")
            os.write(master, b"\x15print EN''D\n")
            text += until(r"\nEND\r?\n")
            missing = set(words) - set(text.split())
            if not missing:
                return
        raise AssertionError(f"after {line!r} zsh does not offer {missing}")

    try:
        os.write(
            master,
            f"LISTMAX=0; unsetopt automenu; fpath=('{folder}' $fpath); autoload -U compinit; "
            "compinit -u -D; print REA''DY\n".encode(),
        )
        until(r"\nREADY\r?\n")
        commands = options_of(prefix)
        offers("fm ", {*commands, "help"})
        for command, options in commands.items():
            offers(f"fm {command} --", options)
        offers("fm model ", ACTIONS)
        (tmp_path / "photo-1.jpg").touch()
        (tmp_path / "photo-2.jpg").touch()
        offers("fm respond --image photo-", {"photo-1.jpg", "photo-2.jpg"})
    finally:
        shell.kill()
        shell.wait()
        os.close(master)


@pytest.mark.parametrize(
    ("shell", "file"),
    [("zsh", "zsh/site-functions/_fm"), ("fish", "fish/vendor_completions.d/fm.fish")],
)
def test_other_shells_read_their_completions(prefix, shell, file):
    text = (prefix / "share" / file).read_text()
    for options in options_of(prefix).values():
        for option in options:
            assert option.removeprefix("--") in text
    if shutil.which(shell):
        run(shell, "-n", prefix / "share" / file)


# ---- The Debian package


def test_a_debian_package_installs_and_goes_away(tmp_path):
    if not all(map(shutil.which, ["dpkg-deb", "dpkg-shlibdeps"])):
        pytest.skip("no Debian")
    run(ROOT / "scripts/package-deb", tmp_path, env=environment(SOURCE_DATE_EPOCH="1700000000"))
    (package,) = tmp_path.glob("openfm_0.1.0_*.deb")
    fields = run("dpkg-deb", "--field", package)
    depends = re.search(r"^Depends: (.*)$", fields, re.M)[1]
    # What the binaries need, and nothing of the build.
    assert "libc6" in depends and "libjpeg62-turbo" in depends
    assert not re.search(r"curl|ssl|swift", depends)
    listed = {line.split()[-1] for line in run("dpkg-deb", "--contents", package).splitlines()}
    assert {
        "./usr/bin/fm",
        "./usr/include/openfm/OpenFM.h",
        "./usr/share/man/man1/fm.1.gz",
    } <= listed
    owners = {line.split()[1] for line in run("dpkg-deb", "--contents", package).splitlines()}
    assert owners == {"root/root"}

    if shutil.which("lintian"):
        told = subprocess.run(
            ["lintian", "--fail-on", "error,warning", package], capture_output=True, text=True
        )
        assert (told.returncode, told.stdout) == (0, ""), told.stdout + told.stderr

    if os.geteuid() != 0:
        pytest.skip("dpkg installs as root only")
    # A dpkg database of its own; dependencies are the machine's affair.
    root = tmp_path / "root"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/updates").mkdir()
    (root / "var/lib/dpkg/status").touch()
    before = set(root.rglob("*"))
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    dpkg = [
        "env",
        f"PATH={path}",
        "dpkg",
        f"--root={root}",
        "--force-depends",
        "--force-script-chrootless",
    ]
    run(*dpkg, "--install", package)
    library = next(root.rglob("libFoundationModels.so.1"))
    assert "0.1.0" in run(
        root / "usr/bin/fm", "--version", env={"LD_LIBRARY_PATH": str(library.parent)}
    )
    run(*dpkg, "--purge", "openfm")
    left = {path for path in set(root.rglob("*")) - before if "var/lib/dpkg" not in str(path)}
    assert left - {root / "var", root / "etc"} == set() or all(path.is_dir() for path in left)
    assert not (root / "usr/bin/fm").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    done = subprocess.run(
        [ROOT / "scripts/install", "--prefix", tmp_path / "file"],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "cannot write to" in done.stderr.splitlines()[-1]


def test_runs_with_nothing_but_libc_beside_it(prefix, tmp_path):
    """A root of its own that holds the installed files, the manylinux set, and nothing else."""
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if os.geteuid() != 0 or chroot is None:
        pytest.skip("chroot needs root")
    root = tmp_path / "root"
    shutil.copytree(prefix, root / str(prefix).lstrip("/"), symlinks=True)
    needed = run("ldd", sys.executable, prefix / "lib/libFoundationModels.so.1")
    names = ("libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "libz.so", "ld-linux")
    for path in set(re.findall(r"(/\S*/(?:lib|ld)\S*\.so\S*)", needed)):
        if any(name in Path(path).name for name in names) and str(prefix) not in path:
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    (tmp_path / "app.c").write_text(PROGRAM)
    run(
        *["cc", tmp_path / "app.c", "-o", root / "app", f"-I{prefix / 'include/openfm'}"],
        *[f"-L{prefix / 'lib'}", "-lFoundationModels", f"-Wl,-rpath,{prefix}/lib"],
        "-Wl,--allow-shlib-undefined",
    )
    shutil.copy(PHOTO, root / "photo.jpg")
    assert run(chroot, root, "/app", "/photo.jpg", env={}) == "0.1.0 6\n"
    assert "0.1.0" in run(chroot, root, prefix / "bin/fm", "--version", env={})
