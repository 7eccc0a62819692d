"""A stand-in for llama.cpp's server, for tests of how the library supervises one.

    python fake_engine.py MODE --host ADDRESS --port N [any llama-server option]

Modes: ok; slow (not healthy for a second); never (not healthy at all); exit (ends at once, code 9);
teapot (is no llama.cpp); chatty (writes 20 MB of log before it listens); socketless (cannot listen
on a Unix socket); deaf (ignores SIGTERM).

GET /health needs no key, everything else does. GET /info tells about the process; GET /hang never
answers; GET /hello answers at once.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import socketserver
import sys
import time


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


mode, host, port = sys.argv[1], option("--host"), int(option("--port"))
start = time.monotonic()
key = os.environ["LLAMA_API_KEY"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *arguments: object) -> None:
        say(format % arguments)

    def answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/health":
            if mode == "teapot":
                self.answer(418, "teapot")
            elif mode == "never" or (mode == "slow" and time.monotonic() - start < 1):
                self.answer(503, "loading")
            else:
                self.answer(200, "ok")
        elif self.headers["Authorization"] != f"Bearer {key}":
            self.answer(401, "no key")
        elif self.path == "/hang":
            say("hanging")
            time.sleep(3600)
        elif self.path == "/info":
            status = open("/proc/self/status").read().splitlines()
            self.answer(
                200,
                {
                    "pid": os.getpid(),
                    "session": os.getsid(0),
                    "argv": sys.argv[1:],
                    "key_length": len(key),
                    "environment": sorted(os.environ),
                    "descriptors": descriptors,
                    "blocked": next(line.split()[1] for line in status if "SigBlk" in line),
                },
            )
        else:
            self.answer(200, "hello")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)


# Those it was born with: none but the standard ones, and the one that lists them.
descriptors = sorted(int(name) for name in os.listdir("/proc/self/fd"))

if mode == "exit":
    say("a first line\nthe model is missing")
    sys.exit(9)
if mode == "chatty":
    for number in range(200_000):
        sys.stderr.write(f"line {number} {'x' * 90}\n")
    say("the last of many lines")
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if host.endswith(".sock"):
    if mode == "socketless":
        say(f"couldn't bind HTTP server socket, hostname: {host}")
        sys.exit(1)
    Server.address_family = socket.AF_UNIX
    server = Server(host, Handler)  # type: ignore[arg-type]
else:
    server = Server((host, port), Handler)
say(f"listening on {host}")
server.serve_forever()
