"""The way to the server: retries, limits, proxies, TLS, and errors with all that is known."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openfm as fm
import pytest
from proxy import Proxy
from scripted_server import ScriptedServer


def ask(model: fm.LanguageModel, text: str = "Hello") -> str:
    return asyncio.run(fm.LanguageModelSession(model=model).respond(text))


def failure(model: fm.LanguageModel) -> fm.FoundationModelsError:
    with pytest.raises(fm.FoundationModelsError) as caught:
        ask(model)
    return caught.value


def posts(server: ScriptedServer) -> int:
    return sum(entry["method"] == "POST" for entry in server.log())


# ---- Retries


def test_what_may_pass_is_tried_again(server: ScriptedServer) -> None:
    limits = {"x-ratelimit-remaining-requests": "3", "Content-Type": "text/event-stream"}
    done = {"choices": [{"delta": {"content": "fine"}, "finish_reason": "stop"}]}
    server.script(
        {"name": "error", "options": {"status": 503, "message": "busy", "retry_after": "0.05"}},
        {"headers": limits, "steps": [{"event": done}]},
    )
    model = fm.ChatCompletionsLanguageModel(server.base_url, "m", context_size=4096)
    session = fm.LanguageModelSession(model=model)
    assert asyncio.run(session.respond("Hello")) == "fine"
    assert session.last_response is not None
    first, second = session.last_response.attempts
    assert (first.http_status, first.error) == (503, "server")
    assert first.message is not None
    assert "busy" in first.message
    assert first.delay is not None
    assert first.delay >= 0.05
    assert (second.http_status, second.error, second.delay) == (200, None, None)
    assert session.last_response.rate_limits == {"x-ratelimit-remaining-requests": "3"}


def test_retries_can_be_turned_off(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(
        server.base_url, "scenario:rate-limit?retry_after=0.05", max_retries=0
    )
    error = failure(model)
    assert isinstance(error, fm.RateLimitedError)
    assert error.retry_after == 0.05
    assert error.rate_limits == {"retry-after": "0.05"}
    assert error.attempts is not None
    assert [attempt["http_status"] for attempt in error.attempts] == [429]
    assert posts(server) == 1

    server.clear()
    twice = fm.ChatCompletionsLanguageModel(
        server.base_url, "scenario:rate-limit?retry_after=0.05", max_retries=1
    )
    error = failure(twice)
    assert isinstance(error, fm.RateLimitedError)
    assert error.attempts is not None
    assert len(error.attempts) == posts(server) == 2


def test_retries_end_with_the_timeout(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(
        server.base_url, "scenario:rate-limit?retry_after=0.3", max_retries=100, timeout=0.8
    )
    start = time.monotonic()
    assert isinstance(failure(model), fm.RateLimitedError)
    assert time.monotonic() - start < 3
    assert 2 <= posts(server) <= 3


@pytest.mark.parametrize(
    ("value", "kind"), [(-1, ValueError), (101, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_numbers_of_retries(value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="max_retries"):
        fm.ChatCompletionsLanguageModel("http://h", "m", max_retries=value)


def test_a_cancelled_wait_for_the_next_attempt(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(
        server.base_url, "scenario:rate-limit?retry_after=30", max_retries=2
    )
    session = fm.LanguageModelSession(model=model)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.respond("Hello"), 0.3)
        assert not session.is_responding
        server.script({"name": "text", "options": {"text": "again"}})
        assert await session.respond("Hello") == "again"

    asyncio.run(main())
    assert posts(server) == 2


# ---- Errors with all that is known

NUMBERS = {"prompt": 5123, "context": 4096}


@pytest.mark.parametrize(
    ("scenario", "kind", "status", "words"),
    [
        ("error?status=500&shape=string&message=it broke", fm.ServerError, 500, "it broke"),
        ("error?status=400&shape=vllm&message=it broke", fm.ServerError, 400, "it broke"),
        ("error?status=422&shape=nest&message=it broke", fm.ServerError, 422, "it broke"),
        ("error?status=422&shape=detail-list&message=it broke", fm.ServerError, 422, "it broke"),
        ("html?status=502", fm.ServerError, 502, "Sign in"),
        ("html?status=400", fm.InvalidResponseError, 400, "Sign in"),
        ("ok-with-error?shape=string", fm.ServerError, 200, "broken"),
        ("unauthorized", fm.AuthenticationError, 401, "Incorrect API key provided"),
        ("forbidden", fm.AuthenticationError, 403, "may not use"),
        ("no-model", fm.EndpointNotFoundError, 404, "scripted-9b"),
        ("no-endpoint", fm.EndpointNotFoundError, 404, "File Not Found"),
        ("too-large", fm.RequestTooLargeError, 413, "the request had"),
        ("error?status=408", fm.TransportTimeoutError, 408, "answered 408"),
        ("rate-limit", fm.RateLimitedError, 429, "Rate limit reached"),
        ("overloaded", fm.ServerError, 503, "Loading model"),
        ("no-images", fm.UnsupportedCapabilityError, 500, "mmproj"),
        ("midstream-error?spelling=field", fm.ServerError, 500, "the GPU went away"),
        (
            "error?status=400&code=content_filter&message=filtered",
            fm.GuardrailViolationError,
            400,
            "filtered",
        ),
        ("redirect", fm.ServerError, 307, "redirects are not followed"),
    ],
)
def test_an_error_tells_status_words_and_url(
    server: ScriptedServer, scenario: str, kind: type[Exception], status: int, words: str
) -> None:
    model = fm.ChatCompletionsLanguageModel(
        server.base_url, f"scenario:{scenario}", max_retries=0, context_size=4096
    )
    error = failure(model)
    assert type(error) is kind
    assert words in str(error)
    assert error.details["http_status"] == status
    assert error.details["url"] == f"{server.base_url}/v1/chat/completions"
    assert error.details["attempts"][-1]["error"]
    if isinstance(error, fm.ServerError):
        assert error.status == status


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("llamacpp", True),
        ("llamacpp-text", False),
        ("llamacpp-numbers", True),
        ("vllm-maximum", True),
        ("vllm-decoder", True),
        ("vllm-prompt", True),
        ("vllm-total", True),
        ("lmstudio", False),
        ("ollama", False),
        ("apple", False),
        ("apple-numbers", True),
    ],
)
def test_overflow_has_both_numbers(server: ScriptedServer, which: str, told: bool) -> None:
    for how in ("", "&midstream=1", "&status=200"):
        model = fm.ChatCompletionsLanguageModel(
            server.base_url, f"scenario:overflow?which={which}&prompt=5123&context=4096{how}"
        )
        error = failure(model)
        assert isinstance(error, fm.ExceededContextWindowSizeError)
        assert (error.token_count, error.context_size) == ((5123, 4096) if told else (None, None))
        assert error.details["attempts"][0]["error"] == "contextSizeExceeded"
    # Deterministic: each was asked once.
    assert posts(server) == 3


def test_a_silent_answer_to_a_full_context_is_overflow(server: ScriptedServer) -> None:
    def model(size: int) -> fm.LanguageModel:
        return fm.ChatCompletionsLanguageModel(
            server.base_url, "scenario:empty?prompt_tokens=2048", context_size=size
        )

    error = failure(model(2048))
    assert isinstance(error, fm.ExceededContextWindowSizeError)
    assert (error.token_count, error.context_size) == (2048, 2048)
    assert isinstance(failure(model(4096)), fm.EmptyResponseError)


@pytest.mark.parametrize(
    "scenario", ["eof?chunks=3", "broken-off?chunks=3", "broken-off?chunks=3&how=reset"]
)
def test_an_answer_that_ends_early_keeps_its_text(server: ScriptedServer, scenario: str) -> None:
    model = fm.ChatCompletionsLanguageModel(server.base_url, f"scenario:{scenario}")
    error = failure(model)
    assert isinstance(error, fm.EndedEarlyError)
    assert error.partial_text == "The quick brown"
    assert posts(server) == 1


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("content_filter", fm.GuardrailViolationError),
        ("SAFETY", fm.GuardrailViolationError),
        ("refusal", fm.RefusalError),
    ],
)
def test_finish_reasons_that_are_errors(
    server: ScriptedServer, reason: str, kind: type[fm.FoundationModelsError]
) -> None:
    model = fm.ChatCompletionsLanguageModel(
        server.base_url, f"scenario:fast-stream?chunks=3&finish={reason}"
    )
    error = failure(model)
    assert type(error) is kind
    assert error.details["partial_text"] == "The quick brown"


def test_a_body_that_a_gateway_calls_not_found_was_too_large(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(
        server.base_url, "scenario:error?status=404&shape=nest&message=Cannot POST"
    )
    session = fm.LanguageModelSession(model=model)
    with pytest.raises(fm.RequestTooLargeError, match=r"the request had 1\d{6} bytes"):
        asyncio.run(session.respond("x" * 1_100_000))
    assert isinstance(failure(model), fm.EndpointNotFoundError)


# ---- Proxies


@pytest.fixture
def no_proxy_settings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def test_the_environments_proxy_is_used(
    server: ScriptedServer, no_proxy_settings: pytest.MonkeyPatch
) -> None:
    with Proxy(("127.0.0.1", server.port), user="me", password="secret-word") as proxy:
        no_proxy_settings.setenv("http_proxy", proxy.url)
        model = fm.ChatCompletionsLanguageModel("http://model.test/v1", "m", context_size=4096)
        assert ask(model) == "Hello"
        assert [request[:2] for request in proxy.requests] == [
            ("POST", "http://model.test/v1/chat/completions")
        ]
        # Not for this machine, and not for what no_proxy names.
        assert ask(fm.ChatCompletionsLanguageModel(server.base_url, "m", context_size=9)) == "Hello"
        no_proxy_settings.setenv("no_proxy", "model.test")
        other = fm.ChatCompletionsLanguageModel("http://model.test/v1", "m", max_retries=0)
        assert isinstance(failure(other), fm.ConnectError)
        assert len(proxy.requests) == 1


def test_a_proxy_can_be_asked_for(
    server: ScriptedServer, no_proxy_settings: pytest.MonkeyPatch
) -> None:
    with Proxy(("127.0.0.1", server.port)) as proxy:
        model = fm.ChatCompletionsLanguageModel(
            server.base_url, "m", proxy=proxy.url, context_size=4096
        )
        assert ask(model) == "Hello"
        assert len(proxy.requests) == 1
        no_proxy_settings.setenv("http_proxy", "http://127.0.0.1:1")
        direct = fm.ChatCompletionsLanguageModel("http://model.test", "m", proxy="", max_retries=0)
        assert "cannot find the host model.test" in str(failure(direct))


def test_a_proxy_that_is_not_there_is_named(no_proxy_settings: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{unused.getsockname()[1]}"
        error = failure(
            fm.ChatCompletionsLanguageModel(
                "http://models.invalid", "m", proxy=f"http://user:secret@{proxy}", max_retries=0
            )
        )
    assert isinstance(error, fm.ConnectError)
    assert proxy in str(error) and "is the proxy running" in str(error)
    assert "secret" not in str(error)


def test_a_header_without_end_is_the_servers_fault(server: ScriptedServer) -> None:
    error = failure(
        fm.ChatCompletionsLanguageModel(server.base_url, "scenario:long-header", max_retries=2)
    )
    assert isinstance(error, fm.InvalidResponseError)
    assert "header" in str(error)
    assert posts(server) == 1


def test_a_proxy_that_wants_a_password_says_so(
    server: ScriptedServer, no_proxy_settings: pytest.MonkeyPatch
) -> None:
    with Proxy(("127.0.0.1", server.port), user="me", password="secret-word") as proxy:
        wrong = proxy.url.replace("secret-word", "wrong-word")
        model = fm.ChatCompletionsLanguageModel("http://m.test", "m", proxy=wrong)
        error = failure(model)
        assert error.details["http_status"] == 407
        assert "wrong-word" not in str(error) + repr(error.details) + repr(model)
    gone = fm.ChatCompletionsLanguageModel("http://m.test", "m", proxy=wrong, max_retries=0)
    error = failure(gone)
    assert isinstance(error, fm.ConnectError)
    assert "wrong-word" not in str(error) + repr(error.details)


# ---- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:model.test"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", names, "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return str(folder / "cert.pem"), str(folder / "key.pem")


@pytest.fixture(scope="module")
def secure_server(certificate: tuple[str, str]) -> Iterator[ScriptedServer]:
    with ScriptedServer(tls=certificate) as server:
        yield server


def test_certificates_are_checked(
    secure_server: ScriptedServer, certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(**options: Any) -> fm.LanguageModel:
        return fm.ChatCompletionsLanguageModel(
            secure_server.base_url, "m", max_retries=0, context_size=4096, **options
        )

    names = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "SSL_CERT_DIR")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    error = failure(model())
    assert isinstance(error, fm.TLSError)
    assert "cannot be trusted" in str(error)
    assert ask(model(certificate_file=Path(certificate[0]))) == "Hello"
    missing = failure(model(certificate_file="/nonexistent/ca.pem"))
    assert isinstance(missing, fm.TLSError)
    assert "/nonexistent/ca.pem" in str(missing)
    # What the environment names comes after what is given, and in this order.
    for better, worse in zip(names, names[1:], strict=False):
        monkeypatch.setenv(better, certificate[0])
        monkeypatch.setenv(worse, "/nonexistent/worse")
        assert ask(model()) == "Hello"
        monkeypatch.setenv(better, "/nonexistent/better")
        assert "/nonexistent/better" in str(failure(model()))
        assert ask(model(certificate_file=certificate[0])) == "Hello"
        monkeypatch.delenv(better)
        monkeypatch.delenv(worse)


def test_https_goes_through_a_tunnel(
    secure_server: ScriptedServer,
    certificate: tuple[str, str],
    no_proxy_settings: pytest.MonkeyPatch,
) -> None:
    def model() -> fm.LanguageModel:
        return fm.ChatCompletionsLanguageModel(
            "https://model.test/v1",
            "m",
            "key-of-mine",
            certificate_file=certificate[0],
            max_retries=0,
            context_size=4096,
        )

    with Proxy(("127.0.0.1", secure_server.port)) as proxy:
        no_proxy_settings.setenv("https_proxy", proxy.url)
        assert ask(model()) == "Hello"
        [(method, where, headers)] = proxy.requests
        assert (method, where) == ("CONNECT", "model.test:443")
        assert "key-of-mine" not in repr(headers)
    with Proxy(("127.0.0.1", secure_server.port), refuse=403) as proxy:
        no_proxy_settings.setenv("https_proxy", proxy.url)
        error = failure(model())
        assert isinstance(error, fm.ConnectError)
        assert "403" in str(error)


# ---- Keys in the clear


def test_a_key_over_plain_http_is_warned_of_once(no_proxy_settings: pytest.MonkeyPatch) -> None:
    program = """
import asyncio, sys
import openfm as fm
for url in ("http://model.test/v1", "http://model.test/v1", "http://127.0.0.1:1"):
    model = fm.ChatCompletionsLanguageModel(url, "m", "sk-my-key", max_retries=0)
    try:
        asyncio.run(fm.LanguageModelSession(model=model).respond("x"))
    except fm.ConnectError:
        pass
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stderr.count("plain http") == 1
    assert "model.test" in result.stderr
    assert "sk-my-key" not in result.stderr


# ---- HTTP/2

H2_PROGRAM = """
import asyncio, json, sys
from hypercorn.asyncio import serve
from hypercorn.config import Config

left = 0

async def app(scope, receive, send):
    global left
    if scope["type"] != "http":
        return
    if scope["path"] == "/left":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(left).encode()})
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    request = json.loads(body)
    head = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    async def event(text, finish=None):
        choice = {"delta": {"content": text}, "finish_reason": finish}
        data = "data: " + json.dumps({"choices": [choice]}) + "\\n\\n"
        await send({"type": "http.response.body", "body": data.encode(), "more_body": True})
    await event("HTTP/" + scope["http_version"])
    if request["model"] == "endless":
        watch = asyncio.ensure_future(receive())
        while not watch.done():
            await asyncio.sleep(0.01)
        left += 1
        return
    for _ in range(5):
        await asyncio.sleep(0.02)
        await event(".")
    await event("", "stop")
    await send({"type": "http.response.body", "body": b"", "more_body": False})

async def main():
    config = Config()
    config.certfile, config.keyfile = sys.argv[1:3]
    config.bind = [f"fd://{sys.argv[3]}"]
    config.errorlog = None
    await serve(app, config, shutdown_trigger=lambda: asyncio.to_thread(sys.stdin.read))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def h2_server(certificate: tuple[str, str]) -> Iterator[str]:
    """The URL of an HTTP/2 server (hypercorn)."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        command = [sys.executable, "-c", H2_PROGRAM, *certificate, str(listener.fileno())]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=[listener.fileno()]
        )
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        # It would wait for the connections that are kept for reuse.
        process.kill()
        process.wait(20)


@pytest.mark.skipif(not fm.build_info()["http2"], reason="this libcurl has no HTTP/2")
def test_http2_streams_and_is_left(h2_server: str, certificate: tuple[str, str]) -> None:
    def session(name: str) -> fm.LanguageModelSession:
        return fm.LanguageModelSession(
            model=fm.ChatCompletionsLanguageModel(
                h2_server, name, certificate_file=certificate[0], server="generic"
            )
        )

    async def leave() -> None:
        async for text in session("endless").stream_response("Hello"):
            assert text == "HTTP/2"
            break

    async def main() -> None:
        assert await session("m").respond("Hello") == "HTTP/2....."
        # Streams that are left do not harm those beside them.
        answers = await asyncio.gather(
            *(session("m").respond("Hello") for _ in range(20)), *(leave() for _ in range(10))
        )
        assert answers[:20] == ["HTTP/2....."] * 20

    asyncio.run(main())
    # The server was told of each stream that was left.
    context = ssl.create_default_context(cafile=certificate[0])
    deadline = time.monotonic() + 10
    while True:
        with urllib.request.urlopen(f"{h2_server}/left", context=context) as response:
            left = int(response.read())
        if left == 10:
            break
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


# ---- Cancellation


def test_a_cancelled_task_closes_its_connection_at_once(server: ScriptedServer) -> None:
    """Every try closes; within 100 ms in the best of several, for a machine that is busy."""
    delays = []
    for scenario in ["hang-before", "hang-midstream", "slow-stream?chunks=1000&delay=0.02"] * 3:
        server.clear()
        model = fm.ChatCompletionsLanguageModel(
            server.base_url, f"scenario:{scenario}", context_size=4096
        )
        session = fm.LanguageModelSession(model=model)

        async def main(session: fm.LanguageModelSession = session) -> float:
            task = asyncio.create_task(session.respond("Hello"))
            await asyncio.sleep(0.2)
            moment = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not session.is_responding
            return moment

        moment = asyncio.run(main())
        [entry] = server.log(finished=1, timeout=10)
        assert entry["closed_at"] is not None, scenario
        delays.append(entry["closed_at"] - moment)
    # One of each kind at least.
    for kind in range(3):
        assert min(delays[kind::3]) < 0.1, delays
