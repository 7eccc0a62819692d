"""Where results go: a name stays what it is, whatever is written there."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openfm as fm
import pytest
from conftest import ROOT
from openfm.evaluation import Cache, EvaluationError, EvaluationResult, compare
from scripted_server import ScriptedServer

Models = Callable[..., fm.ChatCompletionsLanguageModel]
Write = Callable[[Path], object]
CASES = [{"text": f"n {index}", "expected": f"n {index}"} for index in range(4)]


def evaluate(*arguments: Any, **more: Any) -> EvaluationResult:
    return fm.evaluate(*arguments, **{"progress": False, **more})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=["report", "comparison"])
def write(request: pytest.FixtureRequest, model: Models) -> Write:
    """What writes a page."""
    result = evaluate(CASES, "{text}", model=model())
    return result.to_html if request.param == "report" else compare(result, result).to_html


def is_page(text: str) -> bool:
    return text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")


# ---- Pages


def test_a_new_page_has_the_permissions_of_any_new_file(write: Write, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "r.html")
    finally:
        os.umask(before)
    assert mode(tmp_path / "r.html") == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_page_that_was_there_keeps_its_permissions(write: Write, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    page.write_text("old")
    page.chmod(0o604)
    write(page)
    assert mode(page) == 0o604 and is_page(page.read_text())


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_one(write: Write, tmp_path: Path, exists: bool) -> None:
    """Also one of several steps, a relative one, and one whose target is still to come."""
    (tmp_path / "there").mkdir()
    target = tmp_path / "there/page.html"
    if exists:
        target.write_text("old")
    (tmp_path / "there/second").symlink_to("page.html")
    first = tmp_path / "first"
    first.symlink_to("there/second")
    write(first)
    assert os.readlink(first) == "there/second"
    assert os.readlink(tmp_path / "there/second") == "page.html"
    assert not target.is_symlink() and is_page(target.read_text())
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"page.html", "second"}


@pytest.mark.parametrize("linked", [True, False])
def test_a_pipe_is_written_into(write: Write, tmp_path: Path, linked: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    name = tmp_path / "link" if linked else pipe
    if linked:
        name.symlink_to(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write(name)
    reader.join(10)
    assert is_page(read[0])
    assert stat.S_ISFIFO(pipe.stat().st_mode) and name.is_symlink() == linked


def test_a_pipe_whose_reader_leaves_is_an_error(write: Write, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Room for less than a page, and then nobody.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    gone = threading.Timer(0.3, os.close, [reader])
    holder = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(holder, bytes(4096))
    except BlockingIOError:
        os.close(holder)
    gone.start()
    with pytest.raises(EvaluationError, match="cannot write the report .*pipe"):
        write(pipe)
    gone.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_into(write: Write, tmp_path: Path) -> None:
    link = tmp_path / "nothing"
    link.symlink_to("/dev/null")
    before = os.stat("/dev/null")
    write(link)
    assert os.readlink(link) == "/dev/null"
    after = os.stat("/dev/null")
    assert stat.S_ISCHR(after.st_mode) and after.st_rdev == before.st_rdev
    assert [path.name for path in tmp_path.iterdir()] == ["nothing"]


def test_a_folder_is_refused(write: Write, tmp_path: Path) -> None:
    (tmp_path / "r.html").mkdir()
    with pytest.raises(EvaluationError, match=r"cannot write the report .*r\.html: Is a directory"):
        write(tmp_path / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_failure_on_the_way_leaves_the_old_page(
    model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = evaluate(CASES, "{text}", model=model())
    page = tmp_path / "r.html"
    page.write_text("old")

    def broken(*_: object) -> str:
        raise RuntimeError("in the middle")

    monkeypatch.setattr("openfm.evaluation._report._header", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        result.to_html(page)
    assert page.read_text() == "old" and list(tmp_path.iterdir()) == [page]


def test_standard_output_is_a_place_too(server: ScriptedServer, tmp_path: Path) -> None:
    """Where it is a pipe, a file, and a file without a name. By a link like /dev/stdout, which a
    test should not be able to take from the machine."""
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    place = tmp_path / "place"
    place.mkdir()
    program = (
        "import sys, openfm as fm; "
        "model = fm.ChatCompletionsLanguageModel(sys.argv[1], 'scenario:echo', context_size=99); "
        "result = fm.evaluate([{'text': 'a'}], '{text}', model=model, progress=False); "
        "result.to_html(sys.argv[2])"
    )
    command = [sys.executable, "-c", program, server.base_url, str(link)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    piped = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert is_page(piped.stdout)
    with open(place / "out", "w+") as file:
        subprocess.run(command, env=environment, stdout=file, check=True)
        assert is_page((place / "out").read_text())
        assert [path.name for path in place.iterdir()] == ["out"]
        os.unlink(place / "out")
        subprocess.run(command, env=environment, stdout=file, check=True)
        file.seek(0)
        assert is_page(file.read())
    assert list(place.iterdir()) == []
    assert os.readlink(link) == "/proc/self/fd/1"


# ---- The file of a run


def test_results_need_a_file_that_they_can_go_on_from(
    model: Models, server: ScriptedServer, tmp_path: Path
) -> None:
    pipe, device = tmp_path / "pipe", tmp_path / "device"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    for path, words in (
        (pipe, "it is no regular file"),
        (device, "it is no regular file"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(EvaluationError, match=f"cannot write the results to .*{words}"):
            evaluate(CASES, "{text}", model=model(), out=path)
    assert [entry for entry in server.log() if entry["method"] == "POST"] == []
    assert stat.S_ISFIFO(pipe.stat().st_mode) and os.readlink(device) == "/dev/null"


@pytest.mark.parametrize("exists", [True, False])
def test_results_through_a_link(
    model: Models, server: ScriptedServer, tmp_path: Path, exists: bool
) -> None:
    """Also when the file is put in order, which writes it anew."""
    target, link = tmp_path / "real.jsonl", tmp_path / "run.jsonl"
    if exists:
        target.touch(0o604)
        target.chmod(0o604)
    link.symlink_to("real.jsonl")
    server.script({"name": "unauthorized"})
    first = evaluate(CASES, "{text}", model=model(), out=link, max_concurrency=1)
    assert len(first.failed) == 1
    with open(target, "ab") as file:
        file.write(b'{"type":"row","half')
    again = evaluate(CASES, "{text}", model=model(), out=link)
    assert not again.failed
    assert os.readlink(link) == "real.jsonl" and not target.is_symlink()
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["type"] for line in lines] == ["run", "row", "row", "row", "row"]
    assert {path.name for path in tmp_path.iterdir()} == {"real.jsonl", "run.jsonl"}
    if exists:
        assert mode(target) == 0o604


# ---- The cache


def test_a_cache_is_a_directory(model: Models, server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe"):
        with pytest.raises(EvaluationError, match=f"{name} is a file and no directory"):
            evaluate(CASES, "{text}", model=model(), cache=tmp_path / name)
    assert [entry for entry in server.log() if entry["method"] == "POST"] == []
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    evaluate(CASES, "{text}", model=model(), cache=tmp_path / "link")
    server.clear()
    again = evaluate(CASES, "{text}", model=model(), cache=tmp_path / "real")
    assert all(row.cached for row in again)
    assert (tmp_path / "link").is_symlink()
    # Others of the group may read what a umask lets them.
    kept = list((tmp_path / "real").rglob("*.json"))
    mask = os.umask(0)
    os.umask(mask)
    assert len(kept) == 4 and {mode(path) for path in kept} == {0o666 & ~mask}


def test_an_entry_that_is_no_file_is_neither_waited_for_nor_replaced(
    model: Models, tmp_path: Path
) -> None:
    cache = Cache(tmp_path)
    evaluate(CASES[:1], "{text}", model=model(), cache=cache)
    (entry,) = tmp_path.rglob("*.json")
    target = tmp_path / "elsewhere"
    entry.rename(target)
    entry.symlink_to(target)
    asked = evaluate(CASES[:1], "{text}", model=model(), cache=Cache(tmp_path, read=False))
    assert not asked[0].cached and entry.is_symlink() and not target.is_symlink()
    assert evaluate(CASES[:1], "{text}", model=model(), cache=cache)[0].cached

    entry.unlink()
    os.mkfifo(entry)
    with pytest.raises(EvaluationError, match="cannot keep an answer in .*no regular file"):
        evaluate(CASES[:1], "{text}", model=model(), cache=cache)
    assert stat.S_ISFIFO(entry.stat().st_mode)
