"""A small HTTP server that gives prepared answers and records the requests.

Each test prepares the part of the API that it needs. The server runs on loopback, in threads; no code of the client is
mocked.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    document: Any = None
    body: bytes | None = None
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        return self.body if self.body is not None else json.dumps(self.document).encode()


@dataclass(frozen=True)
class Lost:
    """The request is taken, its answer never comes back."""


@dataclass(frozen=True)
class Silent:
    """The request is taken, and the connection stays open without an answer, as at a frozen server."""


@dataclass(frozen=True)
class Stream:
    """JSON lines, then the end of the stream; with `hold`, the stream stays open until the server closes."""

    lines: tuple[dict[str, Any], ...]
    hold: bool = False


def problem(status: int, slug: str, detail: str, **more: Any) -> Reply:
    document = {
        "type": f"https://rota.dev/problems/{slug}",
        "title": slug,
        "status": status,
        "detail": detail,
    }
    return Reply(status, {**document, **more}, content_type="application/problem+json")


@dataclass(frozen=True)
class Made:
    """An answer that depends on the request."""

    make: Callable[[Received], Reply]


Answer: TypeAlias = Reply | Lost | Silent | Stream | Made


class StubServer:
    def __init__(self) -> None:
        self.received: list[Received] = []
        self._answers: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self._closing = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                stub._handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """Answers in this order; the last one again and again."""
        self._answers[method, path] = deque(answers)

    def on_document(self, method: str, path: str, document: Any, status: int = 200) -> None:
        self.on(method, path, Reply(status, document))

    def asked(self, method: str, path: str) -> list[Received]:
        return [one for one in self.received if (one.method, one.path) == (method, path)]

    def close(self) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        split = urlsplit(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(request.command, split.path, query, headers, body)
        self.received.append(received)
        answers = self._answers.get((request.command, split.path))
        if not answers:
            answer: Answer = problem(404, "not-found", "there is no such task")
        else:
            answer = answers.popleft() if len(answers) > 1 else answers[0]
        if isinstance(answer, Made):
            answer = answer.make(received)
        if isinstance(answer, Lost):
            request.close_connection = True
        elif isinstance(answer, Silent):
            request.close_connection = True
            self._closing.wait()
        elif isinstance(answer, Stream):
            self._stream(request, answer)
        else:
            self._reply(request, answer)

    def _reply(self, request: BaseHTTPRequestHandler, reply: Reply) -> None:
        body = b"" if reply.status == 204 else reply.encoded()
        request.send_response(reply.status)
        request.send_header("Content-Type", reply.content_type)
        request.send_header("Content-Length", str(len(body)))
        for name, value in reply.headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    def _stream(self, request: BaseHTTPRequestHandler, stream: Stream) -> None:
        request.close_connection = True
        request.send_response(200)
        request.send_header("Content-Type", "application/x-ndjson")
        request.send_header("Connection", "close")
        request.end_headers()
        for line in stream.lines:
            request.wfile.write(json.dumps(line).encode() + b"\n")
            request.wfile.flush()
        if stream.hold:
            self._closing.wait()
