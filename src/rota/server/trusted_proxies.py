"""Whose address a request has when a proxy stands before this server node: that of the proxy's client.

Only for connections from networks that the operator named. Of `X-Forwarded-For` the last address counts that no named
proxy has: what stands before it was written by the client and may be anything. Everything behind this application,
such as restrictions of tokens, throttles and the audit log, sees that address and no header.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from rota.settings import Network

_FOR, _PROTO = b"x-forwarded-for", b"x-forwarded-proto"
_SCHEMES = {b"http": {"http": "http", "websocket": "ws"}, b"https": {"http": "https", "websocket": "wss"}}


class TrustedProxies:
    def __init__(self, app: ASGIApp, networks: tuple[Network, ...]) -> None:
        self._app = app
        self._networks = networks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        peer = _address(client[0]) if client else None
        if peer is not None and self._trusts(peer):
            scope = {**scope, "client": (str(self._behind(scope, peer)), 0)}
            schemes = _SCHEMES.get(_last(scope, _PROTO), {})
            scope["scheme"] = schemes.get(scope["type"], scope.get("scheme", "http"))
        await self._app(scope, receive, send)

    def _behind(self, scope: Scope, peer: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
        nearest = peer
        for text in reversed(_values(scope, _FOR)):
            found = _address(text.decode("latin-1"))
            if found is None:
                break  # no address: who sent it is not known, so it is the proxy that let it pass
            nearest = found
            if not self._trusts(found):
                break
        return nearest

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)


def _values(scope: Scope, wanted: bytes) -> list[bytes]:
    joined = b",".join(value for name, value in scope["headers"] if name == wanted)
    return [value.strip() for value in joined.split(b",")] if joined else []


def _last(scope: Scope, wanted: bytes) -> bytes:
    """What the nearest proxy says."""
    return next(iter(reversed(_values(scope, wanted))), b"").lower()


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address with or without a port; one of IPv4 that is written as one of IPv6 is that of IPv4."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
