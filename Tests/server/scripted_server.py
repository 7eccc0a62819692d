#!/usr/bin/env python3
"""A chat-completions server that can be told to misbehave.

Runs on loopback only, with nothing but the standard library:

    python3 scripted_server.py [--port N] [--unix PATH] [--tls CERT KEY]

The first line on stdout is the TCP port. The server ends when its stdin reaches end of file, so it
never outlives the test that started it. From pytest:

    with ScriptedServer() as server:
        ... server.base_url ...          # http://127.0.0.1:PORT
        server.script({"name": "error", "options": {"status": 500}})
        server.log(finished=1)

What a request gets is chosen, first match wins, by
  1. what POST /_script queued (one scenario a request, or a list of them),
  2. a path that starts with /s/NAME/ (options in the query), for any method,
  3. the body's "model": "scenario:NAME?option=value&...",
  4. otherwise `echo`.
A path that starts with /p/PROFILE/ is served as if the prefix were not there, with that profile's
pages (/props, /v1/models, /health...; see PROFILES).

A scenario is a dict:
    {"status": 200, "reason": "OK", "headers": {...}, "chunked": true, "before": [STEPS],
     "steps": [STEPS]}
or {"name": NAME, "options": {...}} for a built-in one. `before` runs before the head is sent.
"chunked" false sends "Connection: close" and ends the body by closing; a "Content-Length" header
sends the body as it is. Steps:
    {"text": str} {"base64": str}   body bytes
    {"event": JSON or str}          one "data:" event
    {"json": JSON}                  JSON text
    {"wait": seconds}               ends at once when the client closes
    {"hang": seconds}               wait for the client to close, at most so long
    {"reset": true}                 TCP reset
    {"close": true}                 close without the body's proper end
    {"raw": str}                    bytes on the connection, outside any framing

"cut": N ends the connection after N bytes of the response, head included ("cut_how" "reset" for a
TCP reset); every built-in scenario has the options `cut` and `cut_how`.

A request with the header X-Refuse-Body is turned away while its body is still being sent: "413"
answers and reads on, "413-close" answers and hangs up, "reset" hangs up.

Control, all JSON: POST /_script, POST /_config {"props"|"models"|"health": {"status", "body"},
"api_key": str}, GET /_log[?finished=N&timeout=S&full=1], DELETE /_log (clears log, queue, config),
GET /_findings (all scenarios of FINDINGS).

A log entry: id, connection, method, path, scenario, headers (lower case), body (parsed JSON or
null; pictures shortened unless full=1, which the last 8 requests have), body_bytes, images,
received_at, first_byte_at, finished_at (CLOCK_MONOTONIC seconds), bytes_sent, wire_bytes (with the
head and the framing), complete, closed_at,
closed_after (seconds from the request to the client's close; null when it did not close first).
"""

from __future__ import annotations

import argparse
import base64
import email.utils
import hashlib
import http.client
import itertools
import json
import os
import re
import select
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

Scenario = dict[str, Any]
Options = dict[str, str]


class ClientClosed(Exception):
    """The client closed the connection before the scenario ended."""


class Stop(Exception):
    """The scenario ends the connection here."""


# ---- Pictures ---------------------------------------------------------------------------------


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height by the header of a JPEG or PNG."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        return struct.unpack(">II", data[16:24])
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return None


def describe_data_url(url: str) -> dict[str, Any]:
    head, _, payload = url.partition(",")
    media_type = head[5:].split(";")[0] if head.startswith("data:") else None
    try:
        data = base64.b64decode(payload, validate=True)
    except ValueError:
        return {"media_type": media_type, "error": "no base64"}
    size = image_size(data)
    return {
        "media_type": media_type,
        "byte_count": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "width": size[0] if size else None,
        "height": size[1] if size else None,
    }


def content_parts(message: Any) -> list[dict[str, Any]]:
    """A message's content as parts: {"text": str} or {"image": description}."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"text": content}]
    parts: list[dict[str, Any]] = []
    for part in content or []:
        if part.get("type") == "text":
            parts.append({"text": part.get("text", "")})
        elif part.get("type") == "image_url":
            parts.append({"image": describe_data_url(part["image_url"]["url"])})
    return parts


def request_images(body: Any) -> list[dict[str, Any]]:
    """The pictures of all messages in order; `after` is the text right before each."""
    images = []
    for message in messages_of(body):
        previous = None
        for part in content_parts(message):
            if "image" in part:
                images.append({**part["image"], "after": previous})
                previous = None
            else:
                previous = part["text"]
    return images


def messages_of(body: Any) -> list[Any]:
    messages = body.get("messages") if isinstance(body, dict) else None
    return messages if isinstance(messages, list) else []


def shortened(value: Any) -> Any:
    """The body without the pictures' bytes, for the log."""
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if isinstance(value, str) and value.startswith("data:") and len(value) > 200:
        return f"{value[:40]}...({len(value)} characters)"
    return value


# ---- Answers ----------------------------------------------------------------------------------

WORDS = (
    "The quick brown fox jumps over the lazy dog while seven wizards make toxic brew and "
    "pack my box with five dozen liquor jugs — naïve façade, 東京 🦊 done."
).split()


def words(count: int) -> list[str]:
    return [
        word if index == 0 else " " + word
        for index, word in enumerate(itertools.islice(itertools.cycle(WORDS), count))
    ]


def count_tokens(body: Any) -> int:
    """This server's idea of a token: a word; 64 for a picture, 4 around a message."""
    tools = body.get("tools") if isinstance(body, dict) else None
    total = len(json.dumps(tools).split()) if tools else 0
    for message in messages_of(body):
        total += 4
        for part in content_parts(message):
            total += 64 if "image" in part else len(part["text"].split())
    return total


def echo_text(body: Any) -> str:
    """The last user message's text, then a line for each of its pictures."""
    users = [m for m in messages_of(body) if isinstance(m, dict) and m.get("role") == "user"]
    parts = content_parts(users[-1]) if users else []
    text = "".join(part["text"] for part in parts if "text" in part)
    lines = [text] if text else []
    for number, image in enumerate(request_images({"messages": users[-1:]}), 1):
        lines.append(
            f"[{number}: {image.get('media_type')} {image.get('width')}x{image.get('height')} "
            f"{image.get('byte_count')} bytes after {image['after']!r}]"
        )
    return "\n".join(lines)


def instance(schema: Any) -> Any:
    """The smallest value that a simple JSON Schema allows."""
    if not isinstance(schema, dict):
        return None
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return instance(schema[choice][0])
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        return {name: instance(item) for name, item in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance(schema.get("items", {})) for _ in range(schema.get("minItems", 0))]
    if kind == "string":
        return "x" * max(schema.get("minLength", 0), 1)
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return False if kind == "boolean" else None


def chunk(
    delta: dict[str, Any], finish: str | None = None, usage: Any = ..., model: str = "scripted"
) -> dict[str, Any]:
    value: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if usage is not ...:
        value["usage"] = usage
    return value


def usage_of(prompt: int, completion: int, options: Options | None = None) -> dict[str, Any]:
    value: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if options and "cached" in options:
        value["prompt_tokens_details"] = {"cached_tokens": int(options["cached"])}
    if options and "reasoning_tokens" in options:
        value["completion_tokens_details"] = {"reasoning_tokens": int(options["reasoning_tokens"])}
    return value


EOL = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}


def flag(options: Options, name: str, default: bool) -> bool:
    return options.get(name, "1" if default else "0") not in ("0", "false", "no", "")


def stream_steps(
    pieces: list[tuple[str, str]], body: Any, options: Options, finish: str | None = "stop"
) -> list[dict[str, Any]]:
    """Steps of a streamed answer. `pieces` are (delta name, text).

    Options: delay (seconds between chunks), first_delay, eol (lf, crlf, cr), split (bytes a write,
    0 = whole events), batch (events a write), done, final_blank, finish, comments, role, usage
    (last, absent, null, with-finish), space (after "data:"), bom.
    """
    eol = EOL[options.get("eol", "lf")]
    space = " " if flag(options, "space", True) else ""
    usage_mode = options.get("usage", "last")
    prompt = int(options.get("prompt_tokens", count_tokens(body)))
    usage = usage_of(prompt, len(pieces), options)
    null: Any = None if usage_mode == "null" else ...
    events: list[dict[str, Any]] = []
    if flag(options, "role", True):
        events.append(chunk({"role": "assistant", "content": None}, usage=null))
    events += [chunk({name: text}, usage=null) for name, text in pieces]
    finish = options.get("finish", finish or "") or None
    if finish and finish != "none":
        with_finish = usage if usage_mode == "with-finish" else null
        events.append(chunk({}, finish=finish, usage=with_finish))
    if usage_mode == "last":
        events.append({**chunk({}, usage=usage), "choices": []})
    texts = [json.dumps(event, ensure_ascii=flag(options, "ascii", False)) for event in events]
    if flag(options, "done", True):
        texts.append("[DONE]")
    blocks = [f"data:{space}{text}{eol}{eol}" for text in texts]
    if flag(options, "comments", False):
        noise = [":", ": OPENROUTER PROCESSING", ":" + eol]
        blocks = [
            noise[i % 3] + eol + (eol if i % 2 else "") + block for i, block in enumerate(blocks)
        ]
    if not flag(options, "final_blank", True):
        blocks[-1] = blocks[-1][: -len(eol)]
        if flag(options, "final_eol", True) is False:
            blocks[-1] = blocks[-1][: -len(eol)]
    if flag(options, "bom", False):
        blocks[0] = "\ufeff" + blocks[0]

    steps: list[dict[str, Any]] = []
    split = int(options.get("split", "0"))
    batch = int(options.get("batch", "1"))
    delay = float(options.get("delay", "0"))
    if split:
        data = "".join(blocks).encode()
        for at in range(0, len(data), split):
            steps.append({"base64": base64.b64encode(data[at : at + split]).decode()})
            if delay:
                steps.append({"wait": delay})
        return steps
    for at in range(0, len(blocks), batch):
        steps.append({"text": "".join(blocks[at : at + batch])})
        if delay:
            steps.append({"wait": delay})
    return steps


def completion(text: str, body: Any, options: Options) -> dict[str, Any]:
    """A plain, not streamed completion."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if options.get("content") == "parts":
        message["content"] = [{"type": "text", "text": text}]
    for name in ("reasoning", "reasoning_content", "refusal"):
        if name in options:
            message[name] = options[name]
    value: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "scripted",
        "choices": [
            {"index": 0, "message": message, "finish_reason": options.get("finish", "stop")}
        ],
    }
    if options.get("usage", "last") == "last":
        value["usage"] = usage_of(count_tokens(body), len(text.split()), options)
    return value


SSE_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


def sse(steps: list[dict[str, Any]], **more: Any) -> Scenario:
    return {"status": 200, "headers": dict(SSE_HEADERS), "steps": steps, **more}


def answer(text: str, body: Any, options: Options) -> Scenario:
    """`text` streamed by words where the request asks for a stream, else as one object."""
    if isinstance(body, dict) and body.get("stream"):
        pieces = [("content", piece) for piece in re.findall(r"\s*\S+|\s+$", text)]
        return sse(stream_steps(pieces, body, options))
    return {"status": 200, "steps": [{"json": completion(text, body, options)}]}


# ---- Errors -----------------------------------------------------------------------------------


def error_body(shape: str, message: str, status: int, more: dict[str, Any]) -> dict[str, Any]:
    """One step with an error in the shape of one of the servers."""
    if shape == "openai":
        return {
            "json": {
                "error": {
                    "message": message,
                    "type": more.get(
                        "type", "server_error" if status >= 500 else "invalid_request_error"
                    ),
                    "param": None,
                    "code": more.get("code"),
                }
            }
        }
    if shape == "llamacpp":
        inner = {"code": status, "message": message, "type": more.get("type", "server_error")}
        inner.update({k: v for k, v in more.items() if k in ("n_prompt_tokens", "n_ctx")})
        return {"json": {"error": inner}}
    if shape == "string":
        return {"json": {"error": message}}
    if shape == "vllm":
        return {
            "json": {
                "object": "error",
                "message": message,
                "type": "BadRequestError",
                "param": None,
                "code": status,
            }
        }
    if shape == "nest":
        return {"json": {"message": message, "error": "Bad Request", "statusCode": status}}
    if shape == "detail":
        return {"json": {"detail": message}}
    if shape == "detail-list":
        return {"json": {"detail": [{"loc": ["body"], "msg": message, "type": "value_error"}]}}
    if shape == "html":
        return {
            "text": f"<html>\r\n<head><title>{status} {message}</title></head>\r\n<body>\r\n"
            f"<center><h1>{status} {message}</h1></center>\r\n<hr><center>nginx</center>\r\n"
            "</body>\r\n</html>\r\n"
        }
    if shape == "empty":
        return {"text": ""}
    return {"text": message}


OVERFLOWS: dict[str, tuple[str, int, str, dict[str, Any]]] = {
    # name: (shape, usual status, text with {prompt} and {context}, further members)
    "llamacpp": (
        "llamacpp",
        400,
        "the request exceeds the available context size, try increasing it",
        {"type": "exceed_context_size_error", "numbers": True},
    ),
    "llamacpp-text": (
        "llamacpp",
        500,
        "the request exceeds the available context size. try increasing the context size or "
        "enable context shift",
        {},
    ),
    "llamacpp-numbers": (
        "llamacpp",
        400,
        "request ({prompt} tokens) exceeds the available context size ({context} tokens), try "
        "increasing it",
        {"type": "exceed_context_size_error"},
    ),
    "vllm-maximum": (
        "openai",
        400,
        "This model's maximum context length is {context} tokens. However, you requested "
        "{prompt} tokens (4000 in the messages, 1000 in the completion). Please reduce the "
        "length of the messages or completion.",
        {"code": "context_length_exceeded"},
    ),
    "vllm-decoder": (
        "vllm",
        400,
        "The decoder prompt (length {prompt}) is longer than the maximum model length of "
        "{context}. Make sure that `max_model_len` is no smaller than the number of text tokens "
        "plus multimodal tokens.",
        {},
    ),
    "vllm-prompt": (
        "vllm",
        400,
        "Prompt length of {prompt} is longer than the maximum model length {context}.",
        {},
    ),
    "vllm-total": (
        "vllm",
        400,
        "The prompt (total length {prompt}) is too long to fit into the model (context length "
        "{context}). Make sure that `max_model_len` is no smaller than the number of text tokens "
        "plus multimodal tokens.",
        {},
    ),
    "lmstudio": ("string", 400, "Context size has been exceeded.", {}),
    "ollama": ("openai", 400, "the input length exceeds the context length", {}),
    "apple": ("openai", 400, "The transcript exceeded the model's context size.", {}),
    "apple-numbers": (
        "openai",
        400,
        "Content contains {prompt} tokens, which exceeds the maximum allowed context size of "
        "{context}.",
        {},
    ),
}


def error(body: Any, options: Options) -> Scenario:
    """Options: status, shape, message, type, code, retry_after (seconds, or `date` + seconds)."""
    status = int(options.get("status", "500"))
    shape = options.get("shape", "openai")
    message = options.get("message", http.client.responses.get(status, "Error"))
    headers = {"Content-Type": "text/html" if shape == "html" else "application/json"}
    if shape == "text":
        headers["Content-Type"] = "text/plain"
    retry = options.get("retry_after")
    if retry is not None:
        if retry.startswith("date"):
            seconds = float(retry[4:] or "5")
            retry = email.utils.formatdate(time.time() + seconds, usegmt=True)
        headers["Retry-After"] = retry
    step = error_body(shape, message, status, dict(options))
    return {"status": status, "headers": headers, "steps": [step]}


def overflow(body: Any, options: Options) -> Scenario:
    """Options: which (OVERFLOWS), status, prompt, context, midstream."""
    shape, status, text, more = OVERFLOWS[options.get("which", "llamacpp")]
    status = int(options.get("status", status))
    prompt, context = int(options.get("prompt", "5000")), int(options.get("context", "4096"))
    more = dict(more)
    if more.pop("numbers", False):
        more.update(n_prompt_tokens=prompt, n_ctx=context)
    step = error_body(shape, text.format(prompt=prompt, context=context), status, more)
    if flag(options, "midstream", False):
        return sse([{"event": step["json"]}, {"hang": 30}])
    return {"status": status, "steps": [step]}


def midstream_error(body: Any, options: Options) -> Scenario:
    """Options: spelling (field, event, object, string, plain, vllm), chunks, message, hang."""
    message = options.get("message", "the GPU went away")
    lines = {
        "field": f'error: {{"code":500,"message":"{message}","type":"server_error"}}\n\n',
        "event": f'event: error\ndata: {{"message":"{message}"}}\n\n',
        "event-object": f'event: error\ndata: {{"error":{{"message":"{message}"}}}}\n\n',
        "event-text": f"event: error\ndata: {message}\n\n",
        "object": f'data: {{"error":{{"code":500,"message":"{message}"}}}}\n\n',
        "string": f'data: {{"error":"{message}"}}\n\n',
        "vllm": f'data: {{"object":"error","message":"{message}","code":500}}\n\n',
        "plain": f"data: {message}\n\n",
    }
    pieces = [("content", piece) for piece in words(int(options.get("chunks", "2")))]
    steps = stream_steps(pieces, body, {"done": "0", "usage": "absent"}, finish="none")
    steps.append({"text": lines[options.get("spelling", "object")]})
    if flag(options, "hang", True):
        steps.append({"hang": 30})
    return sse(steps)


# ---- Built-in scenarios -----------------------------------------------------------------------


def echo(body: Any, options: Options) -> Scenario:
    """The text it got and a line a picture; with a json_schema response_format, an instance."""
    wanted = body.get("response_format") if isinstance(body, dict) else None
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        return answer(json.dumps(instance(wanted["json_schema"].get("schema"))), body, options)
    return answer(echo_text(body), body, options)


def echo_json(body: Any, options: Options) -> Scenario:
    """Everything the server understood, as a JSON text: roles, texts, pictures, parameters."""
    value = {
        "messages": [{"role": m.get("role"), "parts": content_parts(m)} for m in messages_of(body)],
        "images": request_images(body),
        "parameters": {k: v for k, v in (body or {}).items() if k not in ("messages", "model")},
    }
    return answer(json.dumps(value, ensure_ascii=False), body, options)


def slow_stream(body: Any, options: Options) -> Scenario:
    """chunks (default 10) with delay (default 0.05 s) between them, and all options of a stream."""
    pieces = [("content", piece) for piece in words(int(options.get("chunks", "10")))]
    return sse(stream_steps(pieces, body, {"delay": "0.05", **options}))


def fast_stream(body: Any, options: Options) -> Scenario:
    """chunks (default 1000) as fast as they go."""
    pieces = [("content", piece) for piece in words(int(options.get("chunks", "1000")))]
    return sse(stream_steps(pieces, body, options))


def text(body: Any, options: Options) -> Scenario:
    """Answers `text`, whatever was asked."""
    return answer(options.get("text", "Hello, world!"), body, options)


def reasoning(body: Any, options: Options) -> Scenario:
    """Reasoning deltas (field = reasoning or reasoning_content), then the answer."""
    field = options.get("field", "reasoning_content")
    pieces = [(field, "I think,"), (field, " therefore."), ("content", "Yes"), ("content", ".")]
    return sse(stream_steps(pieces, body, options))


def refusal(body: Any, options: Options) -> Scenario:
    pieces = [("refusal", "I can"), ("refusal", "not do that.")]
    return sse(stream_steps(pieces, body, options))


def tools(body: Any, options: Options) -> Scenario:
    """Calls tools, then answers with a line for each thing they gave.

    `calls`: a JSON list of {"name", "arguments", "id"}, made in the first `rounds` (default 1)
    answers to a prompt; `say`: text before the calls. Asked to choose a tool by a schema (a request
    of a client whose model has no tools), it chooses the calls one after the other.
    """
    calls = json.loads(options.get("calls", "[]"))
    rounds = int(options.get("rounds", "1"))
    messages = messages_of(body)
    given = [part.get("text", "") for m in messages if m.get("role") == "tool"
             for part in content_parts(m)]  # fmt: skip
    told = [part["text"] for m in messages if m.get("role") == "user" for part in content_parts(m)
            if "text" in part and part["text"].startswith("The tool ")]  # fmt: skip
    schema = ((body or {}).get("response_format") or {}).get("json_schema") or {}
    if schema.get("name") == "ToolChoice":
        number = len(told)
        choice = (
            {
                "tool": calls[number % len(calls)]["name"],
                "arguments": calls[number % len(calls)]["arguments"],
            }
            if number < len(calls) * rounds
            else {"tool": "no tool"}
        )
        return answer(json.dumps(choice), body, options)
    done = sum(1 for m in messages if m.get("role") == "assistant" and m.get("tool_calls"))
    if not (body or {}).get("tools") or done >= rounds or body.get("tool_choice") == "none":
        if schema:
            return echo(body, options)
        return answer("\n".join(given or told) or "nothing", body, options)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": options.get("say")}]
    for index, call in enumerate(calls):
        arguments = call["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function = {"name": call["name"], "arguments": text}
        deltas.append(
            {
                "tool_calls": [
                    {
                        "index": index,
                        "type": "function",
                        "function": function,
                        **({"id": call["id"]} if "id" in call else {}),
                    }
                ]
            }  # fmt: skip
        )
    events = [chunk(delta) for delta in deltas] + [chunk({}, finish="tool_calls")]
    usage = {**chunk({}, usage=usage_of(count_tokens(body), len(calls), options)), "choices": []}
    steps: list[dict[str, Any]] = [{"event": event} for event in [*events, usage]]
    return sse([*steps, {"text": "data: [DONE]\n\n"}])


# Pieces of `delta.tool_calls` that mean weather(city="Paris") and time(zone="CET"), each list one
# delta: what servers make of the documented form.
TOOL_DELTAS: dict[str, list[list[dict[str, Any]]]] = {
    "no-index": [
        [{"id": "a", "function": {"name": "weather", "arguments": ""}}],
        [{"function": {"arguments": '{"city":"Paris"}'}}],
        [{"id": "b", "function": {"name": "time", "arguments": '{"zone":'}}],
        [{"function": {"arguments": '"CET"}'}}],
    ],
    "no-id": [
        [{"index": 0, "function": {"name": "weather", "arguments": '{"city":'}}],
        [{"index": 0, "function": {"arguments": '"Paris"}'}}],
        [{"index": 1, "function": {"name": "time", "arguments": '{"zone":"CET"}'}}],
    ],
    "index-0-twice": [
        [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}],
        [{"index": 0, "id": "b", "function": {"name": "time", "arguments": '{"zone":"CET"}'}}],
    ],
    "one-id": [
        [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city":'}}],
        [{"index": 0, "id": "a", "function": {"arguments": '"Paris"}'}}],
        [{"index": 1, "id": "a", "function": {"name": "time", "arguments": '{"zone":'}}],
        [{"index": 1, "id": "a", "function": {"arguments": '"CET"}'}}],
    ],
    "first-index-1": [
        [{"index": 1, "id": "a", "function": {"name": "weather", "arguments": '{"city":'}}],
        [{"index": 1, "function": {"arguments": '"Paris"}'}}],
        [{"index": 2, "id": "b", "function": {"name": "time", "arguments": '{"zone":"CET"}'}}],
    ],
    "id-once": [
        [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": ""}}],
        [{"index": 0, "id": "", "function": {"name": "", "arguments": '{"city":"Paris"}'}}],
        [{"index": 1, "id": "b", "function": {"name": "time", "arguments": ""}}],
        [{"index": 1, "id": "", "function": {"name": "", "arguments": '{"zone":"CET"}'}}],
    ],
    "name-last": [
        [{"index": 0, "id": "a", "function": {"arguments": '{"city":"Paris"}'}}],
        [{"index": 0, "function": {"name": "weather"}}],
        [{"index": 1, "id": "b", "function": {"arguments": '{"zone":"CET"}'}}],
        [{"index": 1, "id": "b", "function": {"name": "time", "arguments": ""}}],
    ],
    "objects": [
        [
            {"id": "a", "function": {"name": "weather", "arguments": {"city": "Paris"}}},
            {"id": "b", "function": {"name": "time", "arguments": {"zone": "CET"}}},
        ],
    ],
    "broken": [[{"id": "a", "function": {"name": "weather", "arguments": '{"city": "Par'}}]],
}


def tool_deltas(body: Any, options: Options) -> Scenario:
    """Calls in one of TOOL_DELTAS' shapes (`case`); when they were answered, their outputs."""
    given = [part.get("text", "") for m in messages_of(body) if m.get("role") == "tool"
             for part in content_parts(m)]  # fmt: skip
    if given:
        return answer("\n".join(given), body, options)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"tool_calls": pieces} for pieces in TOOL_DELTAS[options.get("case", "no-index")]]
    events = [chunk(delta) for delta in deltas] + [chunk({}, finish="tool_calls")]
    return sse([{"event": event} for event in events] + [{"text": "data: [DONE]\n\n"}])


def blank_events(body: Any, options: Options) -> Scenario:
    """Events without data, and blank lines after comments, between the chunks."""
    noise = [": ping\n\n", "data:\n\n", "data: \n\n", "event: ping\n\n", "\n\n\n", "id: 7\n\n"]
    steps = stream_steps([("content", word) for word in words(6)], body, options)
    return sse([s for i, step in enumerate(steps) for s in ({"text": noise[i % 6]}, step)])


def cut_prompt(body: Any, options: Options) -> Scenario:
    """Reads at most `context` (default 2048) tokens of a prompt and drops the rest in silence."""
    read = min(count_tokens(body), int(options.get("context", "2048")))
    return text(body, {**options, "prompt_tokens": str(read)})


def only_json_schema(body: Any, options: Options) -> Scenario:
    """Takes `json_schema` with a schema and `text` as a response_format, as LM Studio does."""
    wanted = (body or {}).get("response_format")
    if wanted is not None and wanted.get("type") != "text":
        if wanted.get("type") != "json_schema" or not wanted["json_schema"].get("schema"):
            message = "'response_format.type' must be 'json_schema' or 'text'"
            return error(body, {"status": "400", "shape": "string", "message": message})
    return echo(body, options)


def asked_schema(body: Any) -> Any:
    return (((body or {}).get("response_format") or {}).get("json_schema") or {}).get("schema")


def weak_grammar(body: Any, options: Options) -> Scenario:
    """Refuses schemas that llama.cpp's grammar cannot hold: a pattern that is nested or without ^
    and $, a nested maxLength of 2000 or more."""

    def refusal(schema: Any, depth: int) -> str | None:
        if isinstance(schema, list):
            return next(filter(None, (refusal(item, depth) for item in schema)), None)
        if not isinstance(schema, dict):
            return None
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            if depth > 1:
                return "failed to parse grammar"
            if not (pattern.startswith("^") and pattern.endswith("$")):
                return "Pattern must start with '^' and end with '$'"
        if depth > 1 and schema.get("maxLength", 0) >= 2000:
            return "number of repetitions exceeds sane defaults"
        inside = [*schema.get("properties", {}).values(), schema.get("items")]
        return next(filter(None, (refusal(item, depth + 1) for item in inside)), None)

    message = refusal(asked_schema(body), 0)
    if message:
        return error(body, {"status": "400", "shape": "llamacpp", "message": message})
    return echo(body, options)


def no_references(body: Any, options: Options) -> Scenario:
    """Never answers a schema that holds a reference."""
    if '"$ref"' in json.dumps(asked_schema(body)):
        return {"before": [{"hang": 30}], "steps": []}
    return echo(body, options)


def content_parts_stream(body: Any, options: Options) -> Scenario:
    """Deltas whose content is a list of parts."""
    events = [
        chunk({"role": "assistant", "content": []}),
        chunk({"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}),
        chunk({"content": [{"type": "thinking", "thinking": "?"}]}),
        chunk({}, finish="stop"),
    ]
    return sse([{"event": event} for event in events] + [{"text": "data: [DONE]\n\n"}])


def plain(body: Any, options: Options) -> Scenario:
    """A JSON completion even where a stream was asked for."""
    text = options.get("text", "Hello, world!")
    return {"status": 200, "steps": [{"json": completion(text, body, options)}]}


def no_stream_options(body: Any, options: Options) -> Scenario:
    """Refuses requests that ask for usage in a stream, and answers others."""
    if isinstance(body, dict) and "stream_options" in body:
        message = options.get("message", "Unrecognized request argument supplied: stream_options")
        return error(body, {"status": options.get("status", "400"), "message": message})
    return text(body, {**options, "usage": "absent"})


def ok_with_error(body: Any, options: Options) -> Scenario:
    """Status 200, JSON error body."""
    step = error_body(options.get("shape", "openai"), options.get("message", "broken"), 500, {})
    return {"status": 200, "steps": [step]}


def empty(body: Any, options: Options) -> Scenario:
    """Status 200, a proper stream, no delta at all."""
    return sse(stream_steps([], body, {"role": "0", **options}))


def long_header(body: Any, options: Options) -> Scenario:
    """A proper answer with a header line of `size` bytes."""
    scenario = answer("Hi", body, options)
    long = "x" * int(options.get("size", "200000"))
    scenario["headers"] = {**scenario["headers"], "X-Long": long}
    return scenario


def odd_content(body: Any, options: Options) -> Scenario:
    """A delta whose content is `value`, of a kind that no server should send."""
    delta = {"role": "assistant", "content": json.loads(options.get("value", "42"))}
    events = [chunk(delta), chunk({}, finish="stop"), chunk({}, usage=usage_of(5, 3, options))]
    return sse([{"event": event} for event in events] + [{"text": "data: [DONE]\n\n"}])


def no_bytes(body: Any, options: Options) -> Scenario:
    """Status 200, content type of a stream, no body."""
    return sse([])


def eof(body: Any, options: Options) -> Scenario:
    """The stream ends properly as HTTP, without finish reason and [DONE]."""
    pieces = [("content", piece) for piece in words(int(options.get("chunks", "3")))]
    return sse(stream_steps(pieces, body, {"done": "0", "usage": "absent"}, finish="none"))


def broken_off(body: Any, options: Options) -> Scenario:
    """The stream ends without the chunked body's end (how = close or reset)."""
    scenario = eof(body, options)
    scenario["steps"] += [{"wait": 0.02}, {options.get("how", "close"): True}]
    return scenario


def hang_before(body: Any, options: Options) -> Scenario:
    """Nothing at all comes for `seconds` (default 30), then an answer."""
    return {**text(body, {}), "before": [{"hang": float(options.get("seconds", "30"))}]}


def hang_midstream(body: Any, options: Options) -> Scenario:
    """chunks (default 2), then silence for `seconds` (default 30)."""
    scenario = eof(body, {"chunks": options.get("chunks", "2")})
    scenario["steps"].append({"hang": float(options.get("seconds", "30"))})
    return scenario


def hang_head(body: Any, options: Options) -> Scenario:
    """Half a response head, then silence."""
    return {
        "no_head": True,
        "steps": [{"raw": "HTTP/1.1 200 OK\r\nContent-Ty"}, {"hang": 30}, {"close": True}],
    }


def reset_before(body: Any, options: Options) -> Scenario:
    """A reset (or close) before any byte of an answer."""
    return {"no_head": True, "steps": [{options.get("how", "reset"): True}]}


def not_http(body: Any, options: Options) -> Scenario:
    return {
        "no_head": True,
        "steps": [{"raw": "SSH-2.0-OpenSSH_9.2p1 Debian\r\n"}, {"close": True}],
    }


def giant_line(body: Any, options: Options) -> Scenario:
    """One line of `bytes` (default 16 MiB) without an end."""
    size = int(options.get("bytes", str(16 << 20)))
    piece = "x" * 65536
    count = max(size // len(piece), 1)
    return sse([{"text": 'data: {"x":"'}] + [{"text": piece}] * count + [{"text": '"}\n\n'}])


def flood(body: Any, options: Options) -> Scenario:
    """`bytes` (default 64 MiB) of proper events, as fast as the client takes them."""
    size = int(options.get("bytes", str(64 << 20)))
    event = f"data: {json.dumps(chunk({'content': 'y' * 1000}))}\n\n"
    per_write = 32
    count = max(size // (len(event) * per_write), 1)
    end = f"data: {json.dumps(chunk({}, finish='stop'))}\n\ndata: [DONE]\n\n"
    return sse([{"text": event * per_write}] * count + [{"text": end}])


def bad_chunk(body: Any, options: Options) -> Scenario:
    """A chunk that is no JSON (`text`), after one good one."""
    bad = options.get("text", '{"choices":[{"delta":{"content":"x"}')
    return sse([{"event": chunk({"content": "Hi"})}, {"text": f"data: {bad}\n\n"}, {"hang": 30}])


def comment_as_data(body: Any, options: Options) -> Scenario:
    """A comment wrapped in a data line, as one gateway does."""
    steps = stream_steps([("content", "Hi")], body, options)
    return sse([{"text": "data: : OPENROUTER PROCESSING\n\n"}] + steps)


def html(body: Any, options: Options) -> Scenario:
    """An HTML page, status 200 unless given."""
    return {
        "status": int(options.get("status", "200")),
        "headers": {"Content-Type": "text/html; charset=utf-8"},
        "steps": [
            {"text": "<!DOCTYPE html>\n<html><head><title>Sign in &amp; go</title></head>"},
            {"text": "<body><script>var a = 1;</script><p>Please sign in.</p></body></html>\n"},
        ],
    }


def garbage(body: Any, options: Options) -> Scenario:
    """A JSON content type with a body that is none."""
    return {"status": 200, "steps": [{"text": options.get("text", "}{ not json")}]}


def redirect(body: Any, options: Options) -> Scenario:
    return {
        "status": int(options.get("status", "307")),
        "headers": {"Location": options.get("to", "http://127.0.0.1:9/elsewhere")},
        "steps": [{"text": ""}],
    }


def big_body(body: Any, options: Options) -> Scenario:
    """`bytes` (default 1 MiB) of plain bytes with a Content-Length."""
    size = int(options.get("bytes", str(1 << 20)))
    piece = "z" * min(size, 65536)
    whole, rest = divmod(size, len(piece) or 1)
    steps = [{"text": piece}] * whole + ([{"text": piece[:rest]}] if rest else [])
    return {
        "status": 200,
        "headers": {"Content-Type": "application/octet-stream", "Content-Length": str(size)},
        "steps": steps,
    }


def short_body(body: Any, options: Options) -> Scenario:
    """A Content-Length that the body does not fill."""
    return {
        "status": 200,
        "headers": {"Content-Type": "application/json", "Content-Length": "1000"},
        "steps": [{"text": '{"half":'}, {"close": True}],
    }


def until_close(body: Any, options: Options) -> Scenario:
    """A stream whose end is the connection's end, as HTTP/1.0 servers do."""
    return {**slow_stream(body, {"delay": "0", **options}), "chunked": False}


def ok(body: Any, options: Options) -> Scenario:
    return {"status": 200, "steps": [{"json": {"status": "ok"}}]}


def no_content(body: Any, options: Options) -> Scenario:
    return {"status": 204, "headers": {}, "steps": []}


def status_of(status: int, message: str, **more: str) -> Callable[[Any, Options], Scenario]:
    def scenario(body: Any, options: Options) -> Scenario:
        return error(body, {"status": str(status), "message": message, **more, **options})

    return scenario


SCENARIOS: dict[str, Callable[[Any, Options], Scenario]] = {
    "tools": tools,
    "tool-deltas": tool_deltas,
    "blank-events": blank_events,
    "cut-prompt": cut_prompt,
    "only-json-schema": only_json_schema,
    "weak-grammar": weak_grammar,
    "no-references": no_references,
    "echo": echo,
    "echo-json": echo_json,
    "text": text,
    "plain": plain,
    "slow-stream": slow_stream,
    "fast-stream": fast_stream,
    "until-close": until_close,
    "reasoning": reasoning,
    "refusal": refusal,
    "content-parts": content_parts_stream,
    "empty": empty,
    "long-header": long_header,
    "odd-content": odd_content,
    "no-bytes": no_bytes,
    "eof": eof,
    "broken-off": broken_off,
    "hang-before": hang_before,
    "hang-head": hang_head,
    "hang-midstream": hang_midstream,
    "reset-before": reset_before,
    "not-http": not_http,
    "giant-line": giant_line,
    "flood": flood,
    "bad-chunk": bad_chunk,
    "comment-as-data": comment_as_data,
    "html": html,
    "garbage": garbage,
    "redirect": redirect,
    "big-body": big_body,
    "short-body": short_body,
    "ok": ok,
    "no-content": no_content,
    "error": error,
    "ok-with-error": ok_with_error,
    "no-stream-options": no_stream_options,
    "overflow": overflow,
    "midstream-error": midstream_error,
    "unauthorized": status_of(401, "Incorrect API key provided.", code="invalid_api_key"),
    "forbidden": status_of(403, "Your key may not use this model."),
    "no-model": status_of(404, "The model `scripted-9b` does not exist.", code="model_not_found"),
    "no-endpoint": status_of(404, "File Not Found", shape="llamacpp", type="not_found_error"),
    "too-large": status_of(413, "request entity too large", shape="nest"),
    "rate-limit": status_of(429, "Rate limit reached for requests", retry_after="2"),
    "overloaded": status_of(503, "Loading model", shape="llamacpp", type="unavailable_error"),
    "no-images": status_of(
        500,
        "image input is not supported - hint: if this is unexpected, you may need to provide "
        "the mmproj",
        shape="llamacpp",
    ),
}


# What users of such servers ran into, each with the scenarios that play it.
FINDINGS: dict[str, list[str]] = {
    "comments anywhere": ["fast-stream?chunks=6&comments=1&split=5"],
    "a blank line after a comment": ["blank-events"],
    "a comment wrapped as data": ["comment-as-data"],
    "no final blank line and no [DONE]": [
        f"fast-stream?chunks=3&done=0&final_blank=0&final_eol=0&usage=absent&split=1&eol={eol}"
        for eol in EOL
    ],
    "an end without a finish reason": ["eof", "broken-off", "broken-off?how=reset"],
    "errors in a stream": [
        f"midstream-error?hang=0&spelling={spelling}"
        for spelling in ("field", "event", "object", "string")
    ],
    "a server that hangs after its error": [
        "midstream-error?spelling=object",
        "midstream-error?spelling=plain&message=Number+of+choices+exceeds+the+limit",
    ],
    "a stream that stalls": ["hang-midstream"],
    "status 200 with an error": ["ok-with-error", "ok-with-error?shape=string"],
    "overflow with silence": ["empty?prompt_tokens=4096"],
    "overflow in words": [f"overflow?which={which}" for which in OVERFLOWS],
    "a prompt that is cut in silence": ["cut-prompt"],
    "shapes of errors": [
        f"error?status=400&shape={shape}&message=it+broke"
        for shape in ("string", "vllm", "nest", "html")
    ],
    "shapes of tool calls": [
        f"tool-deltas?case={case}" for case in TOOL_DELTAS if case not in ("objects", "broken")
    ],
    "a tool call that was not offered": ["tool-deltas?case=no-index"],
    "content that is none": ["odd-content?value=42", "odd-content?value=%7B%22a%22%3A1%7D"],
    "arguments as an object": ["tool-deltas?case=objects"],
    "arguments that are broken": ["tool-deltas?case=broken"],
    "reasoning by two names": ["reasoning?field=reasoning", "reasoning?field=reasoning_content"],
    "one response_format": ["only-json-schema"],
    "a grammar that fails open": ["text?text=%7B%22name%22%3A+7%7D"],
    "a grammar that cannot hold all": ["weak-grammar"],
    "references that hang": ["no-references"],
    "usage in the last chunk only": ["fast-stream?chunks=2"],
    "usage that is null or absent": [
        "fast-stream?chunks=2&usage=null", "fast-stream?chunks=2&usage=absent",
    ],
    "stream_options refused": ["no-stream-options"],
    "too many requests": ["rate-limit?retry_after=0.05", "rate-limit?retry_after=date1"],
}  # fmt: skip


def parse_scenario(text: str) -> tuple[str, Options]:
    name, _, query = text.partition("?")
    return name, dict(urllib.parse.parse_qsl(query, keep_blank_values=True))


def build(scenario: Scenario, body: Any) -> Scenario:
    """A queued scenario, with a built-in one's name put in place."""
    if "name" in scenario:
        options = {str(k): str(v) for k, v in scenario.get("options", {}).items()}
        return named(scenario["name"], options, body)
    return scenario


def named(name: str, options: Options, body: Any) -> Scenario:
    make = SCENARIOS.get(name)
    if make is None:
        known = ", ".join(sorted(SCENARIOS))
        message = f"no scenario {name!r}; there are: {known}"
        return error(body, {"status": "404", "message": message})
    scenario = make(body, options)
    if "cut" in options:
        scenario = {**scenario, "cut": int(options["cut"]), "cut_how": options.get("cut_how")}
    return scenario


# ---- What the server says of itself -----------------------------------------------------------


def props(vision: bool | None, context: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"total_slots": 1, "model_path": "scripted.gguf", "build_info": "b1"}
    if context is not None:
        body["default_generation_settings"] = {"id": 0, "n_ctx": context}
    if vision is not None:
        body["modalities"] = {"vision": vision, "audio": False}
    return {"status": 200, "body": body}


MODELS = {
    "status": 200,
    "body": {"object": "list", "data": [{"id": "scripted", "object": "model"}]},
}
HEALTH = {"status": 200, "body": {"status": "ok"}}
NOT_FOUND = {"status": 404, "body": {"error": {"code": 404, "message": "File Not Found"}}}


def models(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": 200,
        "body": {"object": "list", "data": [{"object": "model", **entry} for entry in entries]},
    }


def page_scenario(answer: dict[str, Any]) -> Scenario:
    step = {"json": answer["body"]} if "body" in answer else {"text": answer["text"]}
    return {"status": answer["status"], "steps": [step]}


def ok_page(body: Any) -> dict[str, Any]:
    return {"status": 200, "body": body}


LOADING = {"status": 503, "body": {"error": {"code": 503, "message": "Loading model"}}}

# What a server has at its pages. `header` is its Server header, `else` what any other page gives.
# A page's name starts with its method unless that is GET.
PROFILES: dict[str, dict[str, Any]] = {
    "default": {"props": props(True, 4096), "models": MODELS, "health": HEALTH},
    "blind": {"props": props(False, 2048), "models": MODELS, "health": HEALTH},
    "silent": {"props": NOT_FOUND, "models": MODELS, "health": NOT_FOUND},
    "old": {"props": props(None, 512), "models": MODELS, "health": HEALTH},
    "odd": {
        "props": {"status": 200, "body": {"modalities": "yes", "default_generation_settings": 7}},
        "models": MODELS,
        "health": HEALTH,
    },
    "page": {"props": {"status": 200, "text": "<html></html>"}, "models": MODELS, "health": HEALTH},
    "loading": {"props": LOADING, "models": LOADING, "health": LOADING},
    "llamacpp": {
        "header": "llama.cpp",
        "props": ok_page(
            {
                "default_generation_settings": {"id": 0, "n_ctx": 8192},
                "total_slots": 4,
                "modalities": {"vision": True, "audio": False},
                "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}",
                "chat_template_caps": {"supports_tools": True, "supports_tool_calls": True},
                "build_info": "b8681-abcdef",
            }
        ),
        "models": models({"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 8192}}),
    },
    # A template that knows no tools, from before the server told so itself.
    "llamacpp-toolless": {
        "header": "llama.cpp",
        "props": ok_page(
            {
                "default_generation_settings": {"n_ctx": 2048},
                "total_slots": 1,
                "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}",
            }
        ),
    },
    # /props needs a key there; the list of models does not.
    "llamacpp-locked": {
        "props": {"status": 401, "body": {"error": {"code": 401, "message": "Invalid API Key"}}},
        "models": models({"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 1024}}),
    },
    "ollama": {
        "models": models({"id": "m:latest", "owned_by": "library"}),
        "api/version": ok_page({"version": "0.35.1"}),
        "POST api/show": ok_page({"capabilities": ["completion", "vision"]}),
        "api/ps": ok_page(
            {"models": [{"name": "m:latest", "model": "m:latest", "context_length": 16384}]}
        ),
    },
    # The model is not loaded, so its context is not decided.
    "ollama-idle": {
        "models": models({"id": "m:latest", "owned_by": "library"}),
        "api/version": ok_page({"version": "0.35.1"}),
        "POST api/show": ok_page({"capabilities": ["completion", "tools"]}),
        "api/ps": ok_page({"models": []}),
    },
    "vllm": {
        "header": "uvicorn",
        "models": models({"id": "m", "owned_by": "vllm", "max_model_len": 32768}),
        "version": ok_page({"version": "0.15.0"}),
    },
    # Behind a gateway that writes its own list.
    "vllm-gateway": {
        "models": models({"id": "m", "owned_by": "us", "max_model_len": 32768}),
        "version": ok_page({"version": "0.15.0"}),
    },
    "lmstudio": {
        "header": "Express",
        "models": models(
            {"id": "m", "owned_by": "organization_owner"},
            {"id": "other", "owned_by": "organization_owner"},
        ),
        "api/v0/models": ok_page(
            {
                "object": "list",
                "data": [
                    {"id": "other", "type": "llm", "state": "not-loaded"},
                    {
                        "id": "m",
                        "type": "vlm",
                        "state": "loaded",
                        "capabilities": ["tool_use"],
                        "max_context_length": 131072,
                        "loaded_context_length": 4096,
                    },
                ],
            }
        ),
        "else": {"status": 200, "body": {"error": "Unexpected endpoint or method. (GET /props)"}},
    },
    "mlx": {
        "header": "BaseHTTP/0.6 Python/3.12.4",
        "models": models({"id": "mlx-community/Qwen3-4B-4bit"}),
    },
    "mlx-vlm": {
        "header": "uvicorn",
        "models": models({"id": "m"}),
        "health": ok_page({"status": "healthy", "loaded_model": "m", "loaded_adapter": None}),
    },
    # A gateway that nobody knows, which tells a context all the same.
    "gateway": {"models": models({"id": "m", "owned_by": "us", "context_length": 65536})},
}


class State:
    """What all connections share."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.log: list[dict[str, Any]] = []
        self.full: deque[tuple[int, Any]] = deque(maxlen=8)
        self.queue: deque[Scenario] = deque()
        self.config: dict[str, Any] = {}
        self.requests = itertools.count(1)
        self.connections = itertools.count(1)

    def clear(self) -> None:
        with self.changed:
            self.log.clear()
            self.full.clear()
            self.queue.clear()
            self.config.clear()

    def add(self, entry: dict[str, Any], body: Any) -> None:
        with self.changed:
            self.log.append(entry)
            self.full.append((entry["id"], body))
            self.changed.notify_all()

    def finished(self) -> int:
        return sum(1 for entry in self.log if entry["finished_at"] is not None)

    def snapshot(self, finished: int, timeout: float, full: bool) -> list[dict[str, Any]]:
        with self.changed:
            self.changed.wait_for(lambda: self.finished() >= finished, timeout)
            bodies = dict(self.full) if full else {}
            return [{**entry, "body": bodies.get(entry["id"], entry["body"])} for entry in self.log]


# ---- Connections ------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "scripted"
    sys_version = ""
    wbufsize = 0
    state: State
    entry: dict[str, Any] | None = None
    left: int | None = None
    cut_how: str | None = None

    def setup(self) -> None:
        if isinstance(self.client_address, tuple):
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection_number = next(self.state.connections)
        super().setup()

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            self.close_connection = True

    def __getattr__(self, name: str) -> Any:
        # One entry for every method there is or is not.
        if name.startswith("do_"):
            return self.serve
        raise AttributeError(name)

    # -- Requests

    def serve(self) -> None:
        received_at = time.monotonic()
        # What is sent from here on belongs to no request yet.
        self.entry, self.left = None, None
        refusal = self.headers.get("X-Refuse-Body")
        if refusal:
            self.refuse_body(refusal)
            return
        data = self.read_body()
        path, _, query = self.path.partition("?")
        if path.startswith("/_"):
            self.control(path, urllib.parse.parse_qs(query), data)
            return
        try:
            body = json.loads(data) if data else None
        except ValueError:
            body = None
        entry: dict[str, Any] = {
            "id": next(self.state.requests),
            "connection": self.connection_number,
            "method": self.command,
            "path": self.path,
            "scenario": None,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": shortened(body),
            "body_bytes": len(data),
            "images": request_images(body) if b"image_url" in data else [],
            "received_at": received_at,
            "first_byte_at": None,
            "finished_at": None,
            "bytes_sent": 0,
            "wire_bytes": 0,
            "complete": False,
            "closed_at": None,
            "closed_after": None,
        }
        self.entry = entry
        self.state.add(entry, body)
        name, scenario = self.choose(path, query, body)
        entry["scenario"] = name
        self.play(scenario)

    def read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts = []
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                parts.append(self.rfile.read(size))
                self.rfile.readline()
                if size == 0:
                    return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def choose(self, path: str, query: str, body: Any) -> tuple[str, Scenario]:
        with self.state.changed:
            if self.state.queue:
                scenario = self.state.queue.popleft()
                return scenario.get("name", "scripted"), build(scenario, body)
            config = dict(self.state.config)
        if path.startswith("/s/"):
            name = path.split("/")[2]
            return name, named(name, dict(urllib.parse.parse_qsl(query)), body)
        profile = PROFILES["default"]
        if path.startswith("/p/"):
            _, _, profile_name, rest = (path + "/").split("/", 3)
            profile = PROFILES.get(profile_name, profile)
            self.server_version = profile.get("header", "scripted")
            path = "/" + rest.rstrip("/")
        profile = {**profile, **{k: v for k, v in config.items() if k in profile}}
        wanted = config.get("api_key")
        if wanted and self.headers.get("Authorization") != f"Bearer {wanted}":
            return "unauthorized", named("unauthorized", {}, body)
        tail = path[3:] if path.startswith("/v1/") else path
        page = tail[1:] if self.command == "GET" else f"{self.command} {tail[1:]}"
        if page in profile and page not in ("header", "else"):
            return page, page_scenario(profile[page])
        if self.command == "POST" and path.endswith("/chat/completions/input_tokens"):
            return "input_tokens", {"steps": [{"json": {"input_tokens": count_tokens(body)}}]}
        if self.command != "POST" or not path.endswith("/chat/completions"):
            if "else" in profile:
                return "else", page_scenario(profile["else"])
            return "no-endpoint", named("no-endpoint", {}, body)
        model = body.get("model") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            message = "the body is no JSON object with a list of messages"
            return "bad-request", error(body, {"status": "400", "message": message})
        if isinstance(model, str) and model.startswith("scenario:"):
            name, options = parse_scenario(model[len("scenario:") :])
            return name, named(name, options, body)
        return "echo", echo(body, {})

    def control(self, path: str, query: dict[str, list[str]], data: bytes) -> None:
        status, value = 200, None
        if self.command == "POST" and path == "/_script":
            scenarios = json.loads(data)
            with self.state.changed:
                self.state.queue.extend(scenarios if isinstance(scenarios, list) else [scenarios])
        elif self.command == "POST" and path == "/_config":
            with self.state.changed:
                self.state.config.update(json.loads(data))
        elif self.command == "GET" and path == "/_log":
            value = self.state.snapshot(
                int(query.get("finished", ["0"])[0]),
                float(query.get("timeout", ["5"])[0]),
                bool(query.get("full")),
            )
        elif self.command == "GET" and path == "/_findings":
            value = [scenario for scenarios in FINDINGS.values() for scenario in scenarios]
        elif self.command == "DELETE" and path == "/_log":
            self.state.clear()
        else:
            status = 404
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    # -- Answers

    def play(self, scenario: Scenario) -> None:
        entry = self.entry
        assert entry is not None
        self.left = scenario.get("cut")
        self.cut_how = scenario.get("cut_how")
        try:
            for step in scenario.get("before", []):
                self.step(step)
            headers = scenario.get("headers", {"Content-Type": "application/json"})
            status = scenario.get("status", 200)
            bodiless = status in (204, 304) or self.command == "HEAD"
            sized = any(name.lower() == "content-length" for name in headers)
            self.chunked = scenario.get("chunked", True) and not sized and not bodiless
            if not scenario.get("no_head"):
                self.send_response(status, scenario.get("reason"))
                for name, value in headers.items():
                    self.send_header(name, value)
                if self.chunked:
                    self.send_header("Transfer-Encoding", "chunked")
                elif not sized and not bodiless:
                    self.send_header("Connection", "close")
                    self.close_connection = True
                self.end_headers()
                entry["first_byte_at"] = time.monotonic()
            if not bodiless:
                for step in scenario.get("steps", []):
                    self.step(step)
                if self.chunked:
                    self.write(b"0\r\n\r\n")
            entry["complete"] = True
        except Stop:
            self.close_connection = True
        except (ClientClosed, ConnectionError, ssl.SSLError):
            self.close_connection = True
            entry["closed_at"] = time.monotonic()
            entry["closed_after"] = entry["closed_at"] - entry["received_at"]
        finally:
            with self.state.changed:
                entry["finished_at"] = time.monotonic()
                self.state.changed.notify_all()

    def step(self, step: dict[str, Any]) -> None:
        if "text" in step:
            self.body(step["text"].encode())
        elif "base64" in step:
            self.body(base64.b64decode(step["base64"]))
        elif "event" in step:
            event = step["event"]
            text = event if isinstance(event, str) else json.dumps(event)
            self.body(f"data: {text}\n\n".encode())
        elif "json" in step:
            self.body(json.dumps(step["json"], ensure_ascii=False).encode())
        elif "wait" in step or "hang" in step:
            self.wait(float(step.get("wait", step.get("hang"))))
        elif "raw" in step:
            self.write(step["raw"].encode("latin-1"))
        elif "reset" in step:
            self.reset()
            raise Stop
        elif "close" in step:
            raise Stop
        else:
            raise ValueError(f"unknown step {step!r}")

    def body(self, data: bytes) -> None:
        if not data:
            return
        self.write(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)

    def write(self, data: bytes) -> None:
        self.send(data)
        if self.entry is not None:
            self.entry["bytes_sent"] += len(data)

    def flush_headers(self) -> None:
        data = b"".join(getattr(self, "_headers_buffer", []))
        self._headers_buffer = []
        self.send(data)

    def send(self, data: bytes) -> None:
        """Everything that goes out, up to where the scenario cuts it off."""
        cut = self.left is not None and len(data) >= self.left
        if cut:
            data = data[: self.left]
        elif self.left is not None:
            self.left -= len(data)
        self.request.sendall(data)
        if self.entry is not None:
            self.entry["wire_bytes"] += len(data)
        if cut:
            if self.cut_how == "reset":
                self.reset()
            raise Stop

    def reset(self) -> None:
        """Ends the connection the hard way."""
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Both file objects and the socket must go, or the descriptor stays open.
        self.rfile.close()
        self.request.close()

    def refuse_body(self, how: str) -> None:
        self.close_connection = True
        self.rfile.read(65536)
        if how != "reset":
            body = json.dumps({"error": {"message": "too much", "code": 413}}).encode()
            self.request.sendall(
                b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
        if how == "413":
            while self.rfile.read1(65536):
                pass
        else:
            self.reset()

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            readable, _, _ = select.select([self.request], [], [], left)
            if not readable:
                return
            if isinstance(self.request, ssl.SSLSocket):
                raise ClientClosed
            if self.request.recv(1, socket.MSG_PEEK) == b"":
                raise ClientClosed
            time.sleep(min(left, 0.01))


class TCPServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    tls: ssl.SSLContext | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.tls:
            try:
                request = self.tls.wrap_socket(request, server_side=True)
            except (OSError, ssl.SSLError):
                return
        super().finish_request(request, client_address)
        if self.tls:
            request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A reset step closes the socket under the handler's feet; that is no error here.
        if not isinstance(sys.exc_info()[1], (OSError, ValueError)):
            super().handle_error(request, client_address)


class UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024
    handle_error = TCPServer.handle_error


class ScriptedServer:
    """The server as a child process, so that it shares no interpreter lock with what is tested."""

    def __init__(self, unix: str | None = None, tls: tuple[str, str] | None = None) -> None:
        self.unix = unix
        self.tls = tls
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ScriptedServer:
        command = [sys.executable, os.path.abspath(__file__)]
        if self.unix:
            command += ["--unix", self.unix]
        if self.tls:
            command += ["--tls", *self.tls]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the scripted server did not start")
        self.port = int(line)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.communicate(timeout=10)

    @property
    def base_url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def _call(self, method: str, path: str, value: Any = None) -> Any:
        if self.tls:
            context = ssl.create_default_context(cafile=self.tls[0])
            context.check_hostname = False
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=60, context=context
            )
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            body = None if value is None else json.dumps(value)
            connection.request(method, path, body)
            response = connection.getresponse()
            data = response.read()
            if response.status != 200:
                raise RuntimeError(f"{method} {path}: {response.status}")
            return json.loads(data)
        finally:
            connection.close()

    def script(self, *scenarios: Scenario) -> None:
        """What the next requests get, one each."""
        self._call("POST", "/_script", list(scenarios))

    def configure(self, **config: Any) -> None:
        self._call("POST", "/_config", config)

    def log(
        self, finished: int = 0, timeout: float = 5, full: bool = False
    ) -> list[dict[str, Any]]:
        """The requests so far, once `finished` of them are over (or the time is)."""
        query = f"finished={finished}&timeout={timeout}" + ("&full=1" if full else "")
        result: list[dict[str, Any]] = self._call("GET", f"/_log?{query}")
        return result

    def clear(self) -> None:
        self._call("DELETE", "/_log")


def servers(arguments: argparse.Namespace, state: State) -> Iterator[socketserver.BaseServer]:
    handler = type("BoundHandler", (Handler,), {"state": state})
    tcp = TCPServer(("127.0.0.1", arguments.port), handler)
    if arguments.tls:
        tcp.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tcp.tls.load_cert_chain(*arguments.tls)
    yield tcp
    if arguments.unix:
        if os.path.exists(arguments.unix):
            os.unlink(arguments.unix)
        yield UnixServer(arguments.unix, handler)


def main() -> None:
    parser = argparse.ArgumentParser(description="A chat-completions server for tests.")
    parser.add_argument("--port", type=int, default=0, help="0 = any free one")
    parser.add_argument("--unix", help="listen on this Unix socket too")
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"), help="TLS on the TCP port")
    arguments = parser.parse_args()
    running = list(servers(arguments, State()))
    for server in running:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    print(running[0].server_address[1], flush=True)
    while sys.stdin.buffer.read(65536):
        pass
    if arguments.unix:
        os.unlink(arguments.unix)
    os._exit(0)


if __name__ == "__main__":
    main()
