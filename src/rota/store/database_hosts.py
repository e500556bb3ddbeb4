"""Which hosts of a database's URL are reached without a check of who they are. Nothing here connects."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from rota import tls

_CHECKED = ("verify-ca", "verify-full")  # any other mode lets a machine in between read everything


def unverified_hosts(url: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Of PostgreSQL's URL, with what its client takes from the environment. Sockets and loopback need no check."""
    try:
        parts = urlsplit(url)
        named = parse_qs(parts.query)
    except ValueError:
        return ()  # the client will say what is wrong with it
    if _last(named, "sslmode", environment.get("PGSSLMODE", "")) in _CHECKED:
        return ()
    in_address = unquote(parts.netloc.rpartition("@")[2])
    hosts = in_address or _last(named, "host", environment.get("PGHOST", ""))
    found = [_without_port(host) for host in hosts.split(",")]
    return tuple(dict.fromkeys(host for host in found if not _is_local(host)))


def _is_local(host: str) -> bool:
    return not host or host.startswith(("/", "@")) or tls.is_loopback(host)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _last(named: Mapping[str, list[str]], name: str, otherwise: str) -> str:
    return named[name][-1] if name in named else otherwise
