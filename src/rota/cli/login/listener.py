"""Waits on 127.0.0.1 for the browser that comes back from the server's page with the code.

Whatever runs on this machine may send requests here, so nothing is believed but an answer with the state that this
login made up. Browsers open connections that they do not use: each request has a thread of its own. It reads no more of
HTTP than it needs: Python's own server takes as long to import as all else that shell completion loads.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from dataclasses import dataclass, field
from socketserver import StreamRequestHandler, ThreadingTCPServer
from types import TracebackType
from urllib.parse import parse_qs

SILENT_SECONDS = 10.0
LONGEST_LINE = 8 * 1024
MOST_LINES = 100

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title} · Rota</title><body><h1>{title}</h1>
<p>{text}</p></body></html>
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the browser brought: a code; or none, because the user refused."""

    code: str | None = field(repr=False)


class Listener:
    """`with Listener() as listener:` listens; `wait` returns the answer."""

    def __init__(self) -> None:
        self.state = secrets.token_urlsafe(24)
        self.answer: Answer | None = None
        self._came = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="login", daemon=True)

    @property
    def address(self) -> str:
        """Where the browser is led back to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self, seconds: float) -> Answer | None:
        """None: nothing has come until then."""
        self._came.wait(seconds)
        return self.answer

    def read(self, query: str) -> Answer | None:
        """The answer in this query, if it belongs to this login."""
        given = parse_qs(query, max_num_fields=10)
        state, code, error = (given.get(name, [""])[0] for name in ("state", "code", "error"))
        if not hmac.compare_digest(state.encode(), self.state.encode()) or not (code or error):
            return None
        return Answer(None if error else code)

    def give(self, answer: Answer) -> None:
        """The first one counts."""
        if self.answer is None:
            self.answer = answer
            self._came.set()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        super().__init__(("127.0.0.1", 0), _Request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks off is nobody's trouble."""


class _Request(StreamRequestHandler):
    timeout = SILENT_SECONDS
    server: _Server

    def handle(self) -> None:
        method, _, rest = self.rfile.readline(LONGEST_LINE).decode("latin-1").partition(" ")
        if not rest:
            return  # a connection that the browser opened in advance
        for _ in range(MOST_LINES):
            if self.rfile.readline(LONGEST_LINE) in (b"\r\n", b"\n", b""):
                break
        answer = self._answer(rest.partition(" ")[0]) if method == "GET" else None
        if answer is None:
            self._send(
                "404 Not Found", "Nothing here", "This is not the answer that <code>rota login</code> waits for."
            )
        elif answer.code is None:
            self._send("200 OK", "Refused", "The program gets no token. You can close this window.")
        else:
            self._send("200 OK", "Allowed", "The terminal says whether it worked. You can close this window.")
        if answer is not None:  # the browser has its page before this program may end
            self.server.listener.give(answer)

    def _answer(self, target: str) -> Answer | None:
        path, _, query = target.partition("?")
        try:
            return self.server.listener.read(query) if path == "/" else None
        except ValueError:  # too many fields
            return None

    def _send(self, status: str, title: str, text: str) -> None:
        body = _PAGE.format(title=title, text=text).encode()
        # No referrer: the address has the code.
        head = f"""HTTP/1.1 {status}
Content-Type: text/html; charset=utf-8
Content-Length: {len(body)}
Content-Security-Policy: default-src 'none'; frame-ancestors 'none'; base-uri 'none'
X-Content-Type-Options: nosniff
Referrer-Policy: no-referrer
Cache-Control: no-store
Connection: close

"""
        self.wfile.write(head.replace("\n", "\r\n").encode() + body)
