"""A receiver of webhooks: a real HTTP server on loopback with scripted answers, which records its requests."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


@dataclass(frozen=True)
class Got:
    path: str
    headers: dict[str, str]
    body: str


@dataclass
class Receiver:
    """Answers 204, or the next of `answers`; a text is where it redirects to."""

    answers: deque[int | str] = field(default_factory=deque)
    got: list[Got] = field(default_factory=list)

    def __enter__(self) -> Receiver:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                outer.got.append(Got(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                answer = outer.answers.popleft() if outer.answers else 204
                self.send_response(302 if isinstance(answer, str) else answer)
                if isinstance(answer, str):
                    self.send_header("location", answer)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"
