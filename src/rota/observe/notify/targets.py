"""Checks the target of a webhook: only public addresses are allowed.

The address rules are those of `rota.public_addresses`; here the URL is taken apart and the connection is pinned. The
parser is the sender's: two parsers could disagree about the host.
"""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from rota.public_addresses import ForbiddenTarget, Resolve, judged_address

MOST_URL = 2_000
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """A checked target: connect to `address`, send `host` as the host name."""

    url: httpx.URL
    host: str
    port: int
    address: str

    @property
    def pinned_url(self) -> httpx.URL:
        return self.url.copy_with(host=self.address)

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.url.scheme] else f"{host}:{self.port}"


async def judge(url: str, *, private: bool, resolving: Resolve) -> Target:
    """The checked target of the URL. `private`: the operator allows any address and port."""
    unreadable = ForbiddenTarget(f"{url[:80]!r} is not a URL of the form https://host/path")
    if len(url) > MOST_URL or "\\" in url or any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise unreadable
    try:
        parsed = httpx.URL(url)
        host = parsed.raw_host.decode().rstrip(".")
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise unreadable from None
    if parsed.scheme not in PORTS or not host:
        raise unreadable
    if parsed.userinfo:
        raise ForbiddenTarget("a URL with a user name or password is not allowed")
    if parsed.fragment or "#" in url:
        raise ForbiddenTarget("a URL with a fragment (#) is not allowed")
    port = parsed.port or PORTS[parsed.scheme]
    if port not in PORTS.values() and not private:
        raise ForbiddenTarget(f"port {port} is not allowed; use 443 or 80, or a server with --webhooks-private")
    address = await judged_address(host, port, private=private, resolving=resolving)
    return Target(parsed, host, port, address)
