"""``fm eval`` as a shell and a CI run it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from counting_server import CountingServer
from scripted_server import ScriptedServer

FM = Path(os.environ.get("OPENFM_BUILD_DIR", ROOT / ".build" / "openfm")).absolute() / "bin" / "fm"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """This interpreter is the `python3` on PATH, and finds the package."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python3").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENFM_")}
    return {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
    }


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path, server: ScriptedServer) -> Run:
    folder = tmp_path / "work"
    folder.mkdir()
    cases = [{"text": f"n {index}", "expected": f"n {index}"} for index in range(8)]
    (folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    (folder / "prompt.txt").write_text("{text}\n")
    (folder / "wrong.txt").write_text("{text}?\n")

    def fm(*arguments: str, check: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [FM, "eval", *arguments],
            cwd=folder,
            env={**environment, "OPENFM_BASE_URL": server.base_url, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == check, done.stdout + done.stderr
        return done

    return fm


def test_a_run_and_its_summary(run: Run, tmp_path: Path) -> None:
    done = run("cases.jsonl", "--prompt", "prompt.txt", "--out", "run.jsonl", "--report", "r.html")
    assert "8 rows, 8 answered, 0 failed" in done.stdout
    assert "exact: 1.000" in done.stdout
    folder = tmp_path / "work"
    assert len((folder / "run.jsonl").read_text().splitlines()) == 9
    assert (folder / "r.html").read_text().startswith("<!DOCTYPE html>")
    found = json.loads(run("cases.jsonl", "--prompt", "prompt.txt", "--quiet", "--json").stdout)
    assert found["rows"] == 8 and found["scores"]["exact"]["mean"] == 1
    assert run("cases.jsonl", "--prompt", "prompt.txt", "--quiet").stderr == ""


def test_the_exit_code_is_the_verdict(run: Run, server: ScriptedServer) -> None:
    good = ("cases.jsonl", "--prompt", "prompt.txt", "--quiet", "--max-concurrency", "1")
    run(*good, "--fail-under", "1")
    done = run("cases.jsonl", "--prompt", "wrong.txt", "--quiet", "--fail-under", "0.5", check=7)
    assert done.stderr == "fm: below --fail-under 0.5: exact is 0\n"
    # A row without an answer counts as 0: 7 of 8 is 0.875.
    server.script({"name": "unauthorized"})
    run(*good, "--fail-under", "0.87")
    server.script({"name": "unauthorized"})
    assert "exact is 0.875" in run(*good, "--fail-under", "0.88", check=7).stderr
    server.script({"name": "unauthorized"})
    assert "1 x AuthenticationError" in run(*good, check=1).stdout
    run("cases.jsonl", "--prompt", "prompt.txt", "--retries", "0", "--quiet", check=5,
        OPENFM_BASE_URL="http://127.0.0.1:9")  # fmt: skip


def test_structured_answers_are_scored_by_field(run: Run, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "n": {"type": "integer"},
        },
        "required": ["colour", "n"],
        "additionalProperties": False,
    }
    folder = tmp_path / "work"
    (folder / "s.json").write_text(json.dumps(schema))
    (folder / "c.csv").write_text("text,colour,n\na,red,0\nb,blue,0\n")
    found = json.loads(
        run(
            "c.csv", "--prompt-text", "{text}", "--schema", "s.json", "--expected", "colour",
            "--score", "exact:colour", "--json", "--quiet",
        ).stdout
    )  # fmt: skip
    assert found["scores"]["exact colour"]["mean"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "the following arguments are required: CASES"),
        (("cases.jsonl",), "Give --prompt FILE or --prompt-text TEXT"),
        (("none.jsonl", "--prompt", "prompt.txt"), "cannot read the cases of none.jsonl"),
        (("cases.jsonl", "--prompt", "none.txt"), "cannot read none.txt: No such file"),
        (("cases.jsonl", "--prompt-text", "{nothing}"), "names {nothing}, which no case has"),
        (("cases.jsonl", "--prompt", "prompt.txt", "--schema", "prompt.txt"), "is no JSON"),
        (("cases.jsonl", "--prompt", "prompt.txt", "--schema", '{"type": "bogus"}'), "bogus"),
        (("cases.jsonl", "--prompt", "prompt.txt", "--schema", '{"type":'), "--schema is no JSON"),
        (("cases.jsonl", "--prompt", "prompt.txt", "--score", "best"), "no score 'best'"),
        (("cases.jsonl", "--prompt", "prompt.txt", "--repeat", "2"), "with greedy sampling"),
        (("cases.jsonl", "--prompt", "prompt.txt", "--model", "x"), "--model names a model on"),
        (("cases.jsonl", "--prompt", "prompt.txt", "--out", "prompt.txt"), "no file of results"),
        (("cases.jsonl", "--nonsense"), "unrecognized arguments: --nonsense"),
        *(
            (("cases.jsonl", "--prompt", "prompt.txt", option, value), option)
            for option in ("--fail-under", "--tolerance", "--timeout", "--temperature")
            for value in ("nan", "inf", "much")
        ),
        (("cases.jsonl", "--prompt", "prompt.txt", "--fail-under", "2"), "from 0 to 1"),
        (("cases.jsonl", "--prompt", "prompt.txt", "--fail-under=-0.1"), "from 0 to 1"),
    ],
)
def test_what_is_wrong_is_one_line(
    run: Run, server: ScriptedServer, arguments: tuple[str, ...], words: str
) -> None:
    done = run(*arguments, check=2)
    assert words in done.stderr
    assert done.stderr.startswith("fm: ") and done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert [entry for entry in server.log() if entry["method"] == "POST"] == []


@pytest.mark.parametrize(
    ("option", "path", "words"),
    [
        ("--report", "no/x.html", "cannot write the report no/x.html: No such file or directory"),
        ("--report", "prompt.txt/x.html", "cannot write the report prompt.txt/x.html: Not a dir"),
        ("--report", ".", "cannot write the report .: Is a directory"),
        ("--out", "no/x.jsonl", "cannot write the results to no/x.jsonl: No such file"),
    ],
)
def test_what_cannot_be_written_is_told_before_anything_is_asked(
    run: Run, server: ScriptedServer, option: str, path: str, words: str
) -> None:
    done = run("cases.jsonl", "--prompt", "prompt.txt", option, path, check=1)
    assert done.stderr.startswith(f"fm: {words}") and done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert [entry for entry in server.log() if entry["method"] == "POST"] == []


def test_a_report_that_is_there_stays_until_there_is_a_new_one(run: Run, tmp_path: Path) -> None:
    report = tmp_path / "work" / "r.html"
    report.write_text("old")
    good = ("cases.jsonl", "--prompt", "prompt.txt", "--quiet", "--report", "r.html")
    run(*good, "--score", "best", check=2)
    assert report.read_text() == "old"
    run(*good)
    assert report.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [
        ("> /dev/full", 1, "fm: Cannot write to stdout: No space left on device. Give it a place"),
        (">&-", 1, "fm: Cannot write to stdout: Bad file descriptor. Give it a place to go."),
        ("| true", 141, ""),
    ],
)
def test_output_that_goes_nowhere(
    environment: dict[str, str],
    tmp_path: Path,
    server: ScriptedServer,
    redirection: str,
    code: int,
    words: str,
) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"text": "a"}\n')
    command = f'"$FM" eval "$CASES" --prompt-text "{{text}}" --quiet {redirection}'
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        env={**environment, "FM": str(FM), "CASES": str(cases), "OPENFM_BASE_URL": server.base_url},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(words) and done.stderr.count("\n") == bool(words)


def test_without_a_model_it_says_what_to_do(run: Run) -> None:
    done = run(
        "cases.jsonl", "--prompt", "prompt.txt", check=5, OPENFM_BASE_URL="",
        OPENFM_MODEL_PATH="/none.gguf",
    )  # fmt: skip
    assert "/none.gguf" in done.stderr and done.stderr.count("\n") == 1


def test_an_interrupt_leaves_a_file_to_go_on_from(
    environment: dict[str, str], tmp_path: Path
) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text("".join(json.dumps({"id": index}) + "\n" for index in range(300)))
    out = tmp_path / "run.jsonl"
    command: list[Any] = [FM, "eval", cases, "--prompt-text", "<<{id}>>", "--out", out, "--quiet"]
    with CountingServer(delay=0.05) as server:
        environment = {**environment, "OPENFM_BASE_URL": server.base_url, "OPENFM_MODEL": "m"}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20
        while not out.exists() or out.read_bytes().count(b"\n") < 10:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        ended = time.monotonic() - begun
        assert process.returncode == 130, errors
        # The interpreter's exit included, for which a busy machine gets half a second more.
        assert ended < 1.5
        assert "goes on from there" in errors and "Traceback" not in errors
        again = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert again.returncode == 0, again.stdout + again.stderr
        answered = server.counts()["answered"]
        assert set(answered) == {str(index) for index in range(300)}
        # Those that were under way when it was interrupted may have been asked twice.
        assert sum(answered.values()) <= 300 + 8


def test_without_the_package_it_says_what_to_install(
    environment: dict[str, str], tmp_path: Path
) -> None:
    bare = {**environment, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([FM, "eval", "x"], env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "needs the Python package openfm" in done.stderr and done.stderr.count("\n") == 1
    # A file that the user has, never a name on an index that anyone could take.
    assert "-m pip install ./openfm-*.whl" in done.stderr
    # What lies in the working directory is not run.
    (tmp_path / "openfm").mkdir()
    (tmp_path / "openfm" / "__init__.py").write_text("print('hijacked')")
    bare["PYTHONPATH"] = ""
    done = subprocess.run(
        [FM, "eval", "x"], env=bare, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "hijacked" not in done.stdout and done.returncode == 1
    bare["PATH"] = str(tmp_path)
    done = subprocess.run([FM, "eval", "x"], env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "there is no python3 on PATH" in done.stderr


def test_both_helps_name_the_same_options(environment: dict[str, str]) -> None:
    named = []
    for arguments in (["help", "eval"], ["eval", "--help"]):
        done = subprocess.run(
            [FM, *arguments], env=environment, capture_output=True, text=True, check=True
        )
        named.append(re.findall(r"^ +(?:-h, )?(--[a-z-]+)", done.stdout, re.M))
    assert set(named[0]) == set(named[1]) and len(named[0]) == len(set(named[0])) > 20


def test_help_names_it(environment: dict[str, str]) -> None:
    for arguments in (["help"], ["help", "eval"], ["eval", "--help"]):
        done = subprocess.run(
            [FM, *arguments], env=environment, capture_output=True, text=True, check=True
        )
        assert "fm eval" in done.stdout
