#!/usr/bin/env python3
"""An HTTP proxy for tests: plain requests and CONNECT, every host led to one target.

    with Proxy(target=("127.0.0.1", port)) as proxy:
        ... proxy.url ...                  # http://127.0.0.1:PORT
        proxy.requests                     # [("CONNECT", "model.test:443", {headers}), ...]

`user` and `password`: answers 407 to requests without them. `refuse`: answers CONNECT with that
status. Runs in threads of the test's own process, on loopback only.
"""

from __future__ import annotations

import base64
import contextlib
import selectors
import socket
import socketserver
import threading
import urllib.parse
from types import TracebackType


class Proxy:
    def __init__(
        self,
        target: tuple[str, int],
        user: str | None = None,
        password: str | None = None,
        refuse: int | None = None,
    ) -> None:
        self.target = target
        self.refuse = refuse
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        pair = f"{user}:{password}".encode()
        self.authorization = None if user is None else f"Basic {base64.b64encode(pair).decode()}"
        self._userinfo = "" if user is None else f"{user}:{password}@"
        proxy = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    proxy.serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://{self._userinfo}127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, client: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = client.recv(65536)
            if not more:
                return
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, where, version = first.split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self.requests.append((method, where, headers))
        if self.authorization and headers.get("proxy-authorization") != self.authorization:
            self.answer(
                client, "407 Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="x"'
            )
            return
        if method == "CONNECT":
            if self.refuse:
                self.answer(client, f"{self.refuse} Refused")
                return
            with socket.create_connection(self.target) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server.sendall(rest)
                pump(client, server)
            return
        # One request a connection: the rest of it is passed on as it comes.
        parts = urllib.parse.urlsplit(where)
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:"))]
        start = "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close", "", ""])
        with socket.create_connection(self.target) as server:
            server.sendall(start.encode("latin-1") + rest)
            pump(client, server)

    @staticmethod
    def answer(client: socket.socket, status: str, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "Connection: close", "", ""]
        client.sendall("\r\n".join(lines).encode())


def pump(one: socket.socket, other: socket.socket) -> None:
    """Passes bytes both ways until either side ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in selector.select():
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                data = source.recv(65536)
                if not data:
                    return
                target.sendall(data)
