"""What both transports share: how a call becomes an HTTP request, how an answer is judged, when to try again.

Only the sending itself is missing here: `transport.py` does it blocking, `async_transport.py` awaited. The
key goes into one header and nowhere else: it is in no message and no address.
"""

from __future__ import annotations

import itertools
import random
import ssl
import time
from dataclasses import dataclass
from typing import Any

import httpx

from rota import running_task
from rota.client.calls.artifact_calls import Sending
from rota.client.calls.outcomes import error_of
from rota.client.calls.task_calls import Call
from rota.client.errors import NotFound, RotaError, Unreachable
from rota.client.transport.profile import Profile
from rota.client.transport.retry import pause_before_repeating

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0  # for one answer, beyond what the server was asked to wait
QUIET_LOG_SECONDS = 60.0  # a log silent for so long is asked for again, in case the connection died unseen


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """What both httpx clients are made from."""

    base_url: str
    headers: dict[str, str]
    verify: ssl.SSLContext | bool
    limits: httpx.Limits
    timeout: httpx.Timeout

    @staticmethod
    def of(profile: Profile) -> HttpOptions:
        headers = {"Accept": "application/json", "User-Agent": "rota-python"}
        if profile.token is not None:
            headers["Authorization"] = f"Bearer {profile.token}"
        secure = profile.server.startswith("https://")
        return HttpOptions(
            base_url=profile.server,
            headers=headers,
            # The system's certificates, so that a company's own authority works. Plain http needs none
            # (redirects are not followed, so it stays plain), and loading them takes time at every start.
            verify=ssl.create_default_context() if secure else False,
            # Shorter than the server's own limit: a connection the server is just closing must not be reused.
            limits=httpx.Limits(max_connections=100, keepalive_expiry=3.0),
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        )


class Patience:
    """How long one request has been failing. `pause` says how long to wait before the next try, or raises."""

    def __init__(self, retry_seconds: float) -> None:
        self._retry_seconds = retry_seconds
        self._failing_since: float | None = None
        self._tries = itertools.count()

    def pause(self, call: Call[Any], error: Unreachable) -> float:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        pause = pause_before_repeating(
            call,
            error,
            tries=next(self._tries),
            elapsed_seconds=now - self._failing_since,
            retry_seconds=self._retry_seconds,
            chance=random.random(),
        )
        if pause is None:
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


def upload_request(http: httpx.Client | httpx.AsyncClient, sending: Sending) -> httpx.Request:
    """Without its content: that is read as it is sent, by whichever transport sends it."""
    headers = {"Content-Type": "application/octet-stream"}
    if sending.size_bytes is None:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = str(sending.size_bytes)
    timeout = httpx.Timeout(QUIET_LOG_SECONDS, connect=CONNECT_SECONDS)
    return http.build_request(
        sending.call.method, sending.call.path, params=dict(sending.call.query), headers=headers, timeout=timeout
    )


def accepted(response: httpx.Response, body: bytes) -> bytes:
    if response.is_success:
        return body
    error = error_of(response.status_code, response.headers, body)
    raise _naming(error, response.request.url.path) if isinstance(error, NotFound) else error


def _naming(error: NotFound, path: str) -> NotFound:
    """With what was asked for. A server's own words are the same for everything that it does not show."""
    noun = str(error).rpartition(" ")[2]
    for kind, name in reversed(list(itertools.pairwise(path.split("/")))):
        if kind.startswith(noun[:5]) and name:
            return NotFound(
                f"{error}: {name[:80]}",
                status=error.status,
                slug=error.slug,
                faults=error.faults,
                document=error.document,
            )
    return error


def unreachable(error: httpx.TransportError, server: str) -> Unreachable:
    never_sent = isinstance(
        error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.UnsupportedProtocol
    )
    what = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
    why = str(error)
    return Unreachable(f"the server at {server} {what}{f': {why}' if why else ''}", sent=not never_sent)


def cut_short(server: str) -> Unreachable:
    return Unreachable(f"the server at {server} ended the log before the task had ended", sent=True)


def broken_off(server: str) -> Unreachable:
    return Unreachable(
        f"the server at {server} ended its answer before the artifact's end; it may be damaged", sent=True
    )
