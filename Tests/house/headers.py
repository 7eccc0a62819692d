"""Reads what the C headers declare, with nothing but regular expressions."""

import re
from pathlib import Path


def without_comments(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    return re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.M)


def functions(header: Path) -> set[str]:
    """Names of the functions the header declares; function pointer types are none."""
    text = without_comments(header.read_text())
    text = re.sub(r"\btypedef\b[^;{]*(\{[^}]*\})?[^;]*;", " ", text)
    return set(re.findall(r"\b(FM\w+)\s*\(", text))


def enum(header: Path, name: str) -> list[tuple[str, int]]:
    """The members of an enum in the order given; every member must have an explicit value."""
    text = without_comments(header.read_text())
    body = re.search(rf"typedef enum {name} \{{(.*?)\}} {name};", text, flags=re.S)
    if body is None:
        raise AssertionError(f"{header.name} has no enum {name}")
    members = [member.strip() for member in body[1].split(",") if member.strip()]
    result = []
    for member in members:
        match = re.fullmatch(r"(\w+)\s*=\s*(0x[0-9A-Fa-f]+|\d+)", member)
        if match is None:
            raise AssertionError(f"{name}: {member!r} has no explicit value")
        result.append((match[1], int(match[2], 0)))
    return result


def status_name(member: str) -> str:
    """`FMStatusImageNotFound` -> `imageNotFound`, `FMStatusTLS` -> `tls`."""
    name = member.removeprefix("FMStatus")
    return name.lower() if name.isupper() else name[0].lower() + name[1:]
