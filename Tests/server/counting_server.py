#!/usr/bin/env python3
"""A chat-completions server for many requests: one thread, and no work that is not needed.

    python3 counting_server.py [--delay SECONDS] [--refuse N] [--most N]

The first line on stdout is the port; the server ends when its stdin does. It never parses a body:
it looks for ``<<NAME>>`` in the bytes and answers ``answer NAME``, streamed where that is asked
for. With --refuse every N-th name is refused with 429 (by turns 503) the first time; with --most
more requests than that at once are refused with 429 and ``Retry-After: 0``. GET /_counts tells how
often
each name was asked and answered, the most requests at once, and how many bodies held a picture.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
import zlib
from typing import Any

NAME = re.compile(rb"<<([\w.-]+)>>")
LENGTH = re.compile(rb"(?i)content-length:\s*(\d+)")


class Counts:
    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.answered: dict[str, int] = {}
        self.active = self.peak = self.refused = self.pictures = self.body_bytes = 0


class Connection(asyncio.Protocol):
    def __init__(self, arguments: argparse.Namespace, counts: Counts) -> None:
        self.arguments = arguments
        self.counts = counts
        self.head: bytes | None = None
        self.parts: list[bytes] = []
        self.received = 0
        self.wanted = 0
        self.tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        for task in self.tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        self.received += len(data)
        if self.head is None:
            whole = b"".join(self.parts)
            head, found, body = whole.partition(b"\r\n\r\n")
            if not found:
                return
            length = LENGTH.search(head)
            self.head, self.parts = head, [body]
            self.received, self.wanted = len(body), int(length.group(1)) if length else 0
            if b"100-continue" in head:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.received >= self.wanted:
            head, body = self.head, b"".join(self.parts)
            self.head, self.parts, self.received = None, [], 0
            task = asyncio.ensure_future(self.serve(head, body))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def serve(self, head: bytes, body: bytes) -> None:
        counts, path = self.counts, head.split(b" ", 2)[1]
        if path == b"/_counts":
            self.reply(200, vars(counts))
            return
        if not path.endswith(b"/chat/completions"):
            self.reply(404, {"error": {"message": "File Not Found"}})
            return
        found = NAME.search(body)
        name = found.group(1).decode() if found else "?"
        counts.asked[name] = counts.asked.get(name, 0) + 1
        counts.pictures += b"image_url" in body
        counts.body_bytes += len(body)
        counts.active += 1
        try:
            if self.arguments.most and counts.active > self.arguments.most:
                counts.refused += 1
                self.reply(429, {"error": {"message": "too many"}}, "Retry-After: 0\r\n")
                return
            counts.peak = max(counts.peak, counts.active)
            refuse, number = self.arguments.refuse, zlib.crc32(name.encode())
            if refuse and number % refuse == 0 and counts.asked[name] == 1:
                counts.refused += 1
                status = 429 if number // refuse % 2 else 503
                self.reply(status, {"error": {"message": "busy"}}, "Retry-After: 0\r\n")
                return
            if self.arguments.delay:
                await asyncio.sleep(self.arguments.delay)
            counts.answered[name] = counts.answered.get(name, 0) + 1
            self.answer(f"answer {name}", re.search(rb'"stream"\s*:\s*true', body) is not None)
        finally:
            counts.active -= 1

    def answer(self, text: str, stream: bool) -> None:
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        common = {"id": "c", "created": 1, "model": "counting"}
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        if not stream:
            choice["message"] = {"role": "assistant", "content": text}
            whole = {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
            self.reply(200, whole)
            return
        choice["delta"] = {"role": "assistant", "content": text}
        event = {
            **common,
            "object": "chat.completion.chunk",
            "choices": [choice],
            "usage": usage,
        }
        body = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
        self.send(200, "text/event-stream", body, "")

    def reply(self, status: int, value: Any, headers: str = "") -> None:
        self.send(status, "application/json", json.dumps(value).encode(), headers)

    def send(self, status: int, kind: str, body: bytes, headers: str) -> None:
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"{headers}\r\n"
        )
        self.transport.write(head.encode() + body)


async def serve(arguments: argparse.Namespace) -> None:
    loop, counts = asyncio.get_running_loop(), Counts()
    server = await loop.create_server(
        lambda: Connection(arguments, counts), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_reader(0, lambda: None if os.read(0, 1024) else ended.set())
    await ended.wait()
    os._exit(0)


class CountingServer:
    """The server as a child process."""

    def __init__(self, delay: float = 0, refuse: int = 0, most: int = 0) -> None:
        self._command = [sys.executable, os.path.abspath(__file__), f"--delay={delay}"]
        self._command += [f"--refuse={refuse}", f"--most={most}"]
        self.base_url = ""

    def __enter__(self) -> CountingServer:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.base_url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=10)

    def counts(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.base_url}/_counts", timeout=30) as response:
            value: dict[str, Any] = json.load(response)
        return value


def main() -> None:
    parser = argparse.ArgumentParser(description="A chat-completions server that counts.")
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--refuse", type=int, default=0)
    parser.add_argument("--most", type=int, default=0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
