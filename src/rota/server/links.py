"""The links of a server node on which others could read or pretend to be someone: what its log warns about at start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rota import tls
from rota.settings import Settings
from rota.store.database_hosts import unverified_hosts

Warned = tuple[str, dict[str, object]]


def links_in_clear(settings: Settings, environment: Mapping[str, str]) -> Iterator[Warned]:
    """Events of the log with their details."""
    url = settings.advertised_url
    if not settings.tls_cert and (tls.is_clear(url) or not tls.is_loopback(settings.host)):
        advice = "tokens and secrets can be read on the network; rota tls init, --tls-cert and --tls-key encrypt"
        yield "tls.clients_in_clear", {"host": settings.host, "url": url, "advice": advice}
    hosts = unverified_hosts(settings.database, environment)
    if hosts:
        advice = "append sslmode=verify-full (and sslrootcert=FILE) to the database's URL"
        yield "tls.database_not_verified", {"hosts": list(hosts), "advice": advice}
    endpoints = [value for name, value in environment.items() if name.startswith("AWS_ENDPOINT")]
    for endpoint in {*settings.objects_options.values(), *endpoints} if settings.objects else ():
        if tls.is_clear(endpoint):
            yield "tls.objects_in_clear", {"url": endpoint, "advice": "use the object store's https address"}
