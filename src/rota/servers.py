"""The addresses of server nodes, and which of them is next. Clients and agents share it; nothing here connects.

Any server node will do for any request, so a user of several goes on to the next one when one fails. A token is sent
to no address but these. `http+unix:/run/rota/server` is a socket of this machine: an agent makes one for tasks without
a network (`execute/server_sockets.py`).
"""

from __future__ import annotations

import random
from urllib.parse import urlsplit

UNIX = "http+unix:"


def socket_of(address: str) -> str | None:
    """The path of the socket, if the address is one."""
    return address.removeprefix(UNIX) if address.startswith(UNIX) else None


def addresses_of(text: str) -> tuple[str, ...]:
    """The addresses in `http://a:7070,http://b:7070`; ValueError with a sentence if they can't be used."""
    if (path := socket_of(text.strip())) is not None:
        if not path.startswith("/") or path.endswith("/") or "," in path or not path.isprintable():
            raise ValueError(f"{path[:200]!r} is not the path of a socket; write {UNIX}/run/rota/server, and only one")
        return (text.strip(),)
    addresses = tuple(part.strip().rstrip("/") for part in text.split(","))
    for number, address in enumerate(addresses):
        if not address and len(addresses) > 1:
            raise ValueError(f"address {number + 1} of {len(addresses)} is empty; write http://a:7070,http://b:7070")
        if not _is_address(address):
            shown = repr(address[:200]) if "@" not in address else "an address with '@'"  # it may contain a password
            raise ValueError(f"{shown} is not the address of a server; write http://host:port, several with commas")
        if address in addresses[:number]:
            raise ValueError(f"{address} is named twice; name each server once")
    if len({address.partition(":")[0] for address in addresses}) > 1:
        raise ValueError(
            "some addresses are http and some https; trouble with one server must not send a token unencrypted"
        )
    return addresses


def _is_address(address: str) -> bool:
    if not address.startswith(("http://", "https://")) or any(mark in address for mark in " \t\r\n@?#\\;"):
        return False
    try:
        split = urlsplit(address)
        return bool(split.hostname) and split.port != 0
    except ValueError:  # the port is no number up to 65535, or the brackets of an IPv6 address do not close
        return False


class Servers:
    """A rotation over the addresses, for one user. It begins with a random one, so that users spread over all."""

    def __init__(self, urls: tuple[str, ...], *, first: str | None = None) -> None:
        self._urls = urls
        self._turn = random.randrange(len(urls)) if first is None else urls.index(first)

    @property
    def current(self) -> str:
        return self._urls[self._turn % len(self._urls)]

    def advance(self) -> None:
        """The current server has failed: on to the next one."""
        self._turn += 1

    def take(self) -> str:
        """The current server; the next try gets the next one."""
        server = self.current
        self.advance()
        return server
