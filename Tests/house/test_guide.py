"""What the guide's pages say works: their snippets are run, with the demo's model and pictures.

A fence whose info string ends in `run` is run in a folder that holds photo.jpg and other.jpg.
Python may await at its top level, as in a notebook.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_readme import FENCE, ROOT, command_for, environment, place

__all__ = ["environment", "place"]  # fixtures

PAGES = sorted((ROOT / "docs/guide").glob("*.md"))
SNIPPETS = [
    pytest.param(language, text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (language, text) in enumerate(FENCE.findall(page.read_text()), 1)
]
NOTEBOOK = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "snippet", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
result = eval(code, {"__name__": "__main__"})
if inspect.iscoroutine(result):
    asyncio.run(result)
"""


def test_there_are_pages():
    assert PAGES
    assert SNIPPETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path):
    for part in page.read_text().split("](")[1:]:
        target = part.split(")")[0].split("#")[0]
        if target and not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_swift_snippets_are_compiled():
    """Each line of them stands in the Swift test that is named after the guide."""
    tested = (ROOT / "Tests/FMCoreTests/GuideTests.swift").read_text()
    known = {line.strip() for line in tested.splitlines()}
    page = (ROOT / "docs/guide/swift-api.md").read_text()
    fences = re.findall(r"^```swift\n(.*?)^```$", page, re.M | re.S)
    assert fences
    shown = {line.strip() for fence in fences for line in fence.splitlines()}
    assert shown - known - {""} == set()


@pytest.mark.parametrize(("language", "text"), SNIPPETS)
def test_snippets_run(language: str, text: str, place: Path, environment: dict[str, str]):
    source = None
    command = command_for(language, text, place)
    if language == "python":
        command, source = [sys.executable, "-c", NOTEBOOK], text
    done = subprocess.run(
        command,
        cwd=place,
        env=environment,
        input=source,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
