"""The tree keeps its promises: arrows between rooms, no Foundation, nothing left lying about."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from headers import enum, functions, status_name

# What each room may import, besides the system modules below. Arrows point one way; a room that is
# not listed is an error, so that a new one has to say where it stands.
ALLOWED = {
    "FMImaging": {
        "CJPEG",
        "CSPNG",
        "CWebP",
        "CHEIF",
        "CZimg",
        "CLCMS",
        "CExif",
        "CCrypto",
        "CLinux",
    },  # fmt: skip
    "FMWire": {"CBase64", "CText", "CCurl", "CLinux", "CCrypto"},
    "FMCore": {"FMImaging", "FMWire", "CLinux", "CCrypto"},
    "FMCommand": {"FMCore", "FMImaging", "FMWire", "CLinux"},
    "FMCBindings": {"FMCommand", "FMCore", "FMImaging", "FMWire", "CLinux", "CRelease"},
}
SYSTEM = {"Glibc", "Musl", "Synchronization", "Swift", "_Concurrency"}
# Lower ones know nothing of higher ones.
ORDER = ["FMImaging", "FMWire", "FMCore", "FMCommand", "FMCBindings"]

IMPORT = re.compile(
    r"^\s*(?:@\w+(?:\([^)]*\))?\s+)*(?:(?:public|package|internal|fileprivate|private)\s+)?"
    r"import\s+(?:(?:typealias|struct|class|enum|protocol|let|var|func)\s+)?(\w+)",
    re.M,
)
CONDITION = re.compile(r"canImport\((\w+)\)")


def wrong_imports(sources: Path) -> list[str]:
    """Every import under `sources` that its room may not have, as `file: module`."""
    wrong = []
    for file in sorted(sources.rglob("*.swift")):
        room = file.relative_to(sources).parts[0]
        allowed = ALLOWED.get(room, set()) | SYSTEM | {room}
        text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S)
        text = re.sub(r"//[^\n]*", "", text)
        named = set(IMPORT.findall(text)) | set(CONDITION.findall(text))
        if room not in ALLOWED:
            wrong.append(f"{file.relative_to(sources)}: unknown room {room}")
        wrong += [f"{file.relative_to(sources)}: {name}" for name in sorted(named - allowed)]
    return wrong


def tracked(root: Path) -> list[Path]:
    """Every file git knows, and every new one it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout.decode()
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def texts(root: Path) -> list[tuple[Path, str]]:
    result = []
    for file in tracked(root):
        data = file.read_bytes()
        if b"\0" not in data:
            result.append((file.relative_to(root), data.decode("utf-8")))
    return result


def test_imports_point_one_way(root):
    assert list((root / "Sources").rglob("*.swift")), "no Swift sources found"
    assert wrong_imports(root / "Sources") == []


def test_the_allowed_arrows_are_no_circle():
    for room, allowed in ALLOWED.items():
        for other in allowed & set(ORDER):
            assert ORDER.index(other) < ORDER.index(room), f"{room} -> {other}"


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("FMImaging", "import FMCore"),
        ("FMImaging", "import FMWire"),
        ("FMWire", "@testable import FMCore"),
        ("FMWire", "public import FMImaging"),
        ("FMCore", "  import FMCBindings"),
        ("FMCore", "import struct FMCommand.Command"),
        ("FMCore", "import Foundation"),
        ("FMCore", "@preconcurrency import Dispatch"),
        ("FMCommand", "#if canImport(FoundationEssentials)\n#endif"),
        ("FMNovelty", "import Glibc"),
    ],
)
def test_a_turned_arrow_is_seen(tmp_path, room, line):
    folder = tmp_path / room
    folder.mkdir()
    (folder / "Right.swift").write_text("// import FMCore\nimport Synchronization\n")
    (folder / "Wrong.swift").write_text(f"import Glibc\n{line}\n")
    found = wrong_imports(tmp_path)
    assert any(name.startswith(f"{room}/Wrong.swift: ") for name in found), found


def test_right_arrows_pass(tmp_path):
    for room in ALLOWED:
        (tmp_path / room).mkdir()
        lines = [f"import {name}" for name in sorted(ALLOWED[room] | SYSTEM)]
        (tmp_path / room / "File.swift").write_text("\n".join(lines) + "\n")
    assert wrong_imports(tmp_path) == []


def test_the_manifest_declares_the_same_arrows(root):
    """Package.swift's dependency lists stay within the table too."""
    manifest = (root / "Package.swift").read_text()
    targets = re.findall(r"\.target\(\s*name: \"(FM\w+)\",\s*dependencies: \[([^\]]*)\]", manifest)
    assert {name for name, _ in targets} == set(ALLOWED)
    for name, list_ in targets:
        assert set(re.findall(r'"(\w+)"', list_)) <= ALLOWED[name], name
    assert ".package(" not in manifest, "outside packages are not used"


def test_swift_exports_only_fm_names(root):
    """A C name given to a Swift function is one that a header declares."""
    declared = functions(root / "include/FoundationModels.h") | functions(root / "include/OpenFM.h")
    given = set()
    for file in (root / "Sources").rglob("*.swift"):
        names = re.findall(r'@(?:_cdecl|c)\s*\(\s*"?(\w+)"?\s*\)', file.read_text())
        if names:
            assert file.relative_to(root / "Sources").parts[0] == "FMCBindings", file
        given |= set(names)
    assert given - declared == set()


def test_no_machine_paths(root):
    # Written in halves, so that this file does not find itself.
    folders = ["/wor" + "k/", "/roo" + "t/", "/hom" + "e/", "/tm" + "p/", "/far" + "m/"]
    found = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in texts(root)
        for number, line in enumerate(text.splitlines(), 1)
        if any(folder in line for folder in folders)
    ]
    assert found == []


def test_nothing_unfinished(root):
    words = re.compile(
        "|".join(
            [r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bXX" + r"X\b", "NotImplemented" + "Error"]
        )
    )
    found = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in texts(root)
        for number, line in enumerate(text.splitlines(), 1)
        if words.search(line)
    ]
    assert found == []


def test_no_registry_hosts(root):
    hosts = ["pypi." + "org", "files.pythonhosted." + "org", "deb.debian." + "org"]
    found = [str(path) for path, text in texts(root) if any(host in text for host in hosts)]
    assert found == []


def test_tracked_files_are_small(root):
    big = [str(file) for file in tracked(root) if file.stat().st_size > 4_000_000]
    assert big == []


def test_scripts_are_executable(root):
    scripts = [
        *[p for p in (root / "scripts").iterdir() if p.is_file() and p.suffix == ""],
        root / ".ci/run",
    ]
    assert {p.name for p in scripts} >= {"setup", "build", "test", "check", "run"}
    for script in scripts:
        assert script.read_text().startswith("#!/usr/bin/env "), script
        assert os.access(script, os.X_OK), f"{script} is not executable"


def test_shell_scripts_parse(root):
    for script in [*(root / "scripts").iterdir(), root / ".ci/run"]:
        if script.is_file() and (script.suffix == ".sh" or "bash" in script.read_text()[:30]):
            subprocess.run(["bash", "-n", script], check=True)


def test_status_codes_are_unique_and_in_range(root):
    members = enum(root / "include/OpenFM.h", "FMStatus")
    values = [value for _, value in members]
    assert len(set(values)) == len(values)
    assert values == sorted(values)
    ranges = [(0, 11), (100, 119), (120, 139), (140, 159), (160, 179), (255, 255)]
    for name, value in members:
        assert any(low <= value <= high for low, high in ranges), f"{name} = {value}"
    # The reference's codes, which never change.
    reference = """Success ExceededContextWindowSize AssetsUnavailable GuardrailViolation
        UnsupportedGuide UnsupportedLanguageOrLocale DecodingFailure RateLimited
        ConcurrentRequests Refusal InvalidSchema InvalidArgument""".split()
    assert members[:12] == [(f"FMStatus{name}", code) for code, name in enumerate(reference)]
    assert members[-1] == ("FMStatusUnknown", 255)


def test_swift_has_the_same_status_codes(root):
    text = (root / "Sources/FMCore/StatusCode.swift").read_text()
    cases = [(name, int(code)) for name, code in re.findall(r"^  case (\w+) = (\d+)$", text, re.M)]
    members = enum(root / "include/OpenFM.h", "FMStatus")
    assert cases == [(status_name(name), value) for name, value in members]


def test_no_function_is_a_stub(root):
    """A trap without a reason is a function that nobody wrote."""
    found = [
        f"{file.relative_to(root)}:{number}"
        for file in (root / "Sources").rglob("*.swift")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(r"fatalError\(\s*\)", line)
    ]
    assert found == []


def test_nobody_is_told_to_install_the_name(root):
    """There is no openfm on PyPI; who takes the name could put anything there."""
    found = [
        f"{file.relative_to(root)}: {line.strip()}"
        for folder in ("README.md", "docs", "Sources", "python", "scripts", "Examples")
        for file in ([root / folder] if (root / folder).is_file() else (root / folder).rglob("*"))
        if file.suffix in (".md", ".swift", ".py", ".sh", ".ipynb", "")
        and file.is_file()
        and not file.is_symlink()
        for line in file.read_text().splitlines()
        if re.search(r"pip install\b.*?[\s'\"]openfm(\[|[\s'\"`.,;)]|$)", line)
    ]
    assert found == []


def test_licence_is_whole(root):
    text = (root / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
