"""Checks the target of a webhook: only public addresses are allowed.

The address rules are those of `rota.public_addresses`; here the URL is taken apart and the connection is pinned.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from rota.public_addresses import ForbiddenTarget, Resolve, judged_address

MOST_URL = 2_000
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """A checked target: connect to `address`, send `host` as the host name."""

    scheme: str
    host: str
    port: int
    address: str
    path: str

    @property
    def pinned_url(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{address}:{self.port}{self.path}"

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


async def judge(url: str, *, private: bool, resolving: Resolve) -> Target:
    """The checked target of the URL. `private`: the operator allows any address and port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ForbiddenTarget(f"{url[:80]!r} is not a URL of the form https://host/path") from None
    host = (parts.hostname or "").rstrip(".")
    if len(url) > MOST_URL or parts.scheme not in PORTS or not host or any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise ForbiddenTarget(f"{url[:80]!r} is not a URL of the form https://host/path")
    if parts.username is not None or parts.password is not None:
        raise ForbiddenTarget("a URL with a user name or password is not allowed")
    port = port if port is not None else PORTS[parts.scheme]
    if port not in PORTS.values() and not private:
        raise ForbiddenTarget(f"port {port} is not allowed; use 443 or 80")
    address = await judged_address(host, port, private=private, resolving=resolving)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, address, path)
