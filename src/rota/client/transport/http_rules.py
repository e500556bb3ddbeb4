"""The part of HTTP that both transports share: how a call becomes a request, and what an answer means.

The transports themselves only send; `tries.py` decides about other servers and further tries. The token is sent in one
header; no message and no address ever contains it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import httpx

from rota import running_task, tls
from rota.client.calls.artifact_calls import Upload
from rota.client.calls.call import Call
from rota.client.calls.outcomes import error_of
from rota.client.errors import ConfigurationError, NotFound, RotaError, Unreachable
from rota.client.transport.profile import Profile
from rota.servers import socket_of

# Shorter than the server's own limit: a connection the server is just closing must not be reused.
LIMITS = httpx.Limits(max_connections=100, keepalive_expiry=3.0)
TOKEN_EXPIRES = "rota-token-expires"
CONNECT_SECONDS = 5.0
QUICK_CONNECT_SECONDS = 0.5
SHORT_WAIT_SECONDS = 5.0  # with several servers, a request waits so long at most: the server may have frozen meanwhile


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may be silent, without the time that it was asked to wait; `quick` if another can be tried."""

    seconds: float
    quick_seconds: float


ANSWER = Patience(30.0, 1.0)
STREAM = Patience(
    60.0, 6.0
)  # servers send a sign of life every two seconds; the connection of a silent one may be dead
TRANSFER = Patience(60.0, 10.0)  # the object store behind the server may be slow

Item = TypeVar("Item", covariant=True)


class StreamReader(Protocol[Item]):
    """Turns the lines of a streamed answer into items, and remembers the last one (`LogReader`, `EventReader`)."""

    @property
    def follow(self) -> bool: ...  # the server keeps the stream open: one that ends is broken
    @property
    def ended(self) -> bool: ...  # the last item has come
    def next_call(self) -> Call[bytes]: ...
    def take(self, line: str) -> Item | None: ...


def url_of(server: str) -> str:
    """The beginning of a request's URL. For a socket it names no host: the path is the transport's."""
    return server if socket_of(server) is None else "http://rota"


def http_options(profile: Profile, transport: Callable[..., Any]) -> dict[str, Any]:
    """The arguments of `httpx.Client` and `httpx.AsyncClient`. `transport`: their own kind, for a socket.

    ConfigurationError if the token would travel in clear, or if no server could be trusted.
    """
    _check_link(profile)
    headers = {"Accept": "application/json", "User-Agent": profile.program}
    if profile.token is not None:
        headers["Authorization"] = f"Bearer {profile.token}"
    if profile.tenant is not None:
        headers["Rota-Tenant"] = profile.tenant
    secure = profile.servers[0].startswith("https://")  # all of them are, or none
    path = socket_of(profile.servers[0])
    if path is not None:  # one socket and no other address
        return {"headers": headers, "transport": transport(uds=path, limits=LIMITS)}
    return {
        "headers": headers,
        # Plain http needs no certificates: redirects are not followed, so it stays plain.
        "verify": tls.trusted(profile.ca) if secure else False,
        "limits": LIMITS,
    }


def _check_link(profile: Profile) -> None:
    fault = tls.clear_fault(profile.servers)
    if fault is not None and profile.token is not None and not profile.insecure_http:
        raise ConfigurationError(fault)
    try:
        if profile.servers[0].startswith("https://"):
            tls.check_authorities(profile.ca)
    except tls.BadAuthorities as error:
        raise ConfigurationError(str(error)) from None


def request_for(
    http: httpx.Client | httpx.AsyncClient, call: Call[Any], server: str, timeout: httpx.Timeout
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
            url_of(server) + call.path,
            params=dict(call.query),
            content=call.body,
            headers=headers,
            timeout=timeout,
        )
    except (UnicodeEncodeError, httpx.InvalidURL) as error:
        raise RotaError(f"cannot be sent: {error}") from None


def upload_request(
    http: httpx.Client | httpx.AsyncClient, upload: Upload, server: str, timeout: httpx.Timeout
) -> httpx.Request:
    """Without its content, which the transport reads while it sends."""
    headers = {"Content-Type": "application/octet-stream"}
    if upload.size_bytes is None:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = str(upload.size_bytes)
    call = upload.call
    return http.build_request(
        call.method, url_of(server) + call.path, params=dict(call.query), headers=headers, timeout=timeout
    )


def accepted(response: httpx.Response, body: bytes, repeated: Call[Any] | None = None) -> bytes:
    """The body of a good answer; else raises its error. `repeated`: a call that may have been carried out before."""
    if repeated is not None and repeated.if_repeated is not None:
        lost = repeated.if_repeated(response.status_code, body)
        if lost is not None:
            return lost
    if response.is_success:
        return body
    error = error_of(response.status_code, response.headers, body)
    raise _naming(error, response.request.url.path) if isinstance(error, NotFound) else error


def _naming(error: NotFound, path: str) -> NotFound:
    """Adds the name that was requested: the server's message is the same for everything that it does not show."""
    words = str(error).removeprefix("there is no such ").split(" ")  # of a dead letter the address says `dead`
    for kind, name in reversed(list(itertools.pairwise(path.split("/")))):
        if name and name not in words and any(kind.startswith(word[:5]) for word in words):
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
    reason = tls.explain(error, server) or str(error)
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError) and server.startswith("http://"):
        reason = f"{reason or 'it ended the connection'} (if it has a certificate, its address is https)"
    return Unreachable(f"the server at {server} {fault}{f': {reason}' if reason else ''}", sent=not never_sent)


def uncertain(error: Unreachable) -> Unreachable:
    """About a request that can't be repeated: nobody knows whether it was carried out."""
    if not error.document:
        error.args = (f"{error}; it may have done what you asked for: look before you try again",)
    return error


def all_failed(error: Unreachable, several: int) -> Unreachable:
    error.args = (f"{error} (all {several} servers were tried)",)
    return error


def cut_short(server: str) -> Unreachable:
    return Unreachable(f"the server at {server} closed a stream that was still open", sent=True)


def broken_off(server: str) -> Unreachable:
    return Unreachable(
        f"the server at {server} ended its answer before the end of the artifact, which may be damaged", sent=True
    )
