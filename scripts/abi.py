"""The C interface as one text, so that a change of it is a change of a file that someone reviews.

    python scripts/abi.py           compares include/*.h with include/abi.txt
    python scripts/abi.py --update  writes it

A prototype, a struct, an enum member or a callback type a line, in the order of their names,
without comments and blanks. Adding a line is a new version; changing or taking one away breaks
programs that were built before.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADERS = ["include/FoundationModels.h", "include/OpenFM.h"]
LIST = ROOT / "include/abi.txt"


def declarations(text: str) -> list[str]:
    """Every declaration of a header, one line each; enums as a line a member."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    text = re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.M)
    text = re.sub(r'extern "C" \{', " ", text)
    text = re.sub(r"\b_N(?:onnull|ullable)\b", " ", text)
    found = []
    for name, body in re.findall(r"typedef enum (\w+) \{(.*?)\} \w+;", text, flags=re.S):
        members = [" ".join(member.split()) for member in body.split(",")]
        found += [f"enum {name}: {member}" for member in members if member]
    text = re.sub(r"typedef enum \w+ \{.*?\} \w+;", " ", text, flags=re.S)
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            line = " ".join(text[start:index].split())
            line = re.sub(r"\s*([(),*{};])\s*", r"\1", line)
            if line:
                found.append(line)
            start = index + 1
        depth = max(depth, 0)
    return found


def current() -> list[str]:
    lines = [line for name in HEADERS for line in declarations((ROOT / name).read_text())]

    def key(line: str) -> tuple[str, str]:
        named = re.search(r"\b(FM\w+)(?=\()|\b(FM\w+)", line)
        return (named[0] if named else "", line)

    return sorted(lines, key=key)


def main() -> int:
    lines = current()
    text = "\n".join([*lines, ""])
    if sys.argv[1:] == ["--update"]:
        if not LIST.exists() or LIST.read_text() != text:
            LIST.write_text(text)
        return 0
    known = LIST.read_text().splitlines()
    difference = [
        line
        for line in difflib.unified_diff(known, lines, lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    if difference:
        print("\n".join(difference))
        print("the C interface is not that of include/abi.txt; if it is meant: scripts/check --fix")
    return bool(difference)


if __name__ == "__main__":
    sys.exit(main())
