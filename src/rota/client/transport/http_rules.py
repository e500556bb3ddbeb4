"""The part of HTTP that both transports share: how a call becomes a request, what an answer means, when to retry.

The transports themselves only send. The token is sent in one header; no message and no address ever contains it.
"""

from __future__ import annotations

import itertools
import random
import ssl
import time
from typing import Any, Protocol, TypeVar

import httpx

from rota import running_task
from rota.client.calls.artifact_calls import Upload
from rota.client.calls.call import Call
from rota.client.calls.outcomes import error_of
from rota.client.errors import NotFound, RotaError, Unreachable
from rota.client.transport.profile import Profile

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0  # for one answer, without the time that the server was asked to wait
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
QUIET_STREAM_SECONDS = 60.0  # a stream silent for so long is requested again: the connection may be dead

Item = TypeVar("Item", covariant=True)


class StreamReader(Protocol[Item]):
    """Turns the lines of a streamed answer into items, and remembers the last one (`LogReader`, `EventReader`)."""

    @property
    def follow(self) -> bool: ...  # the server keeps the stream open: one that ends is broken
    @property
    def ended(self) -> bool: ...  # the last item has come
    def next_call(self) -> Call[bytes]: ...
    def take(self, line: str) -> Item | None: ...


def http_options(profile: Profile) -> dict[str, Any]:
    """The arguments of `httpx.Client` and `httpx.AsyncClient`."""
    headers = {"Accept": "application/json", "User-Agent": "rota-python"}
    if profile.token is not None:
        headers["Authorization"] = f"Bearer {profile.token}"
    secure = profile.server.startswith("https://")
    return {
        "base_url": profile.server,
        "headers": headers,
        # The system's certificates, so that an organisation's own authority works. Plain http needs none
        # (redirects are not followed, so it stays plain), and loading them takes time at every start.
        "verify": ssl.create_default_context() if secure else False,
        # Shorter than the server's own limit: a connection the server is just closing must not be reused.
        "limits": httpx.Limits(max_connections=100, keepalive_expiry=3.0),
        "timeout": httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
    }


class Retries:
    """The failed tries of one request.

    A request is repeated only when that cannot do its work twice: it never reached a server, it carries an idempotency
    key, or it only reads. Limits (429) and refusals are never repeated: the caller decides.
    """

    def __init__(self, retry_seconds: float) -> None:
        self._retry_seconds = retry_seconds
        self._failing_since: float | None = None
        self._tries = itertools.count()

    def pause(self, call: Call[Any], error: Unreachable) -> float:
        """The seconds to wait before the next try; raises the error when there is none.

        A random part spreads clients that lost the same server.
        """
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        longest: float = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(next(self._tries), 10))
        pause = max(longest * (0.5 + random.random() / 2), error.retry_after or 0.0)
        if (error.sent and not call.repeatable) or now - self._failing_since + pause > self._retry_seconds:
            raise error
        return pause


def request_for(
    http: httpx.Client | httpx.AsyncClient, call: Call[Any], answer_seconds: float = ANSWER_SECONDS
) -> httpx.Request:
    headers = {**call.headers} if call.body is None else {**call.headers, "Content-Type": "application/json"}
    if call.idempotency_key is not None:
        headers["Idempotency-Key"] = call.idempotency_key
    parent = running_task.task_id() if call.joins else None
    if parent is not None:
        headers["Rota-Parent"] = str(parent)
    try:
        return http.build_request(
            call.method,
            call.path,
            params=dict(call.query),
            content=call.body,
            headers=headers,
            timeout=httpx.Timeout(answer_seconds + call.wait_seconds, connect=CONNECT_SECONDS),
        )
    except (UnicodeEncodeError, httpx.InvalidURL) as error:
        raise RotaError(f"cannot be sent: {error}") from None


def upload_request(http: httpx.Client | httpx.AsyncClient, upload: Upload) -> httpx.Request:
    """Without its content, which the transport reads while it sends."""
    headers = {"Content-Type": "application/octet-stream"}
    if upload.size_bytes is None:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = str(upload.size_bytes)
    timeout = httpx.Timeout(QUIET_STREAM_SECONDS, connect=CONNECT_SECONDS)
    return http.build_request(
        upload.call.method, upload.call.path, params=dict(upload.call.query), headers=headers, timeout=timeout
    )


def accepted(response: httpx.Response, body: bytes) -> bytes:
    if response.is_success:
        return body
    error = error_of(response.status_code, response.headers, body)
    raise _naming(error, response.request.url.path) if isinstance(error, NotFound) else error


def _naming(error: NotFound, path: str) -> NotFound:
    """Adds the name that was requested: the server's message is the same for everything that it does not show."""
    noun = str(error).rpartition(" ")[2]
    for kind, name in reversed(list(itertools.pairwise(path.split("/")))):
        if kind.startswith(noun[:5]) and name:
            error.args = (f"{error}: {name[:80]}",)
            break
    return error


def unreachable(error: httpx.TransportError | Unreachable, server: str) -> Unreachable:
    if isinstance(error, Unreachable):
        return error
    never_sent = isinstance(
        error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.UnsupportedProtocol
    )
    fault = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
    reason = str(error)
    return Unreachable(f"the server at {server} {fault}{f': {reason}' if reason else ''}", sent=not never_sent)


def cut_short(server: str) -> Unreachable:
    return Unreachable(f"the server at {server} closed a stream that was still open", sent=True)


def broken_off(server: str) -> Unreachable:
    return Unreachable(
        f"the server at {server} ended its answer before the end of the artifact, which may be damaged", sent=True
    )
