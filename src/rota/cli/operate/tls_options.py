"""Options about encryption: the certificate of a server node, whom a process trusts, what may travel in clear.

`--ca` and `--insecure-http` become variables of this process, which everything that connects reads (`rota.tls`).
"""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

import typer

from rota import tls
from rota.cli.operate.settings_options import setting
from rota.cli.shell.checks import wrong
from rota.settings import Network, Settings

CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="Trust the certificates of the authorities in this file, and no others. Else ROTA_CA. "
        "(default: the machine's authorities)",
    ),
]
InsecureHttp = Annotated[
    bool,
    typer.Option("--insecure-http", help="Let tokens travel in clear between machines. Else ROTA_INSECURE_HTTP=1."),
]


def tls_options(
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Certificate of this node, with those of its chain (`rota tls init`). Else ROTA_TLS_CERT.",
        ),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of the certificate. Else ROTA_TLS_KEY.")
    ] = None,
    ca: CaFile = None,
    insecure_http: InsecureHttp = False,
    trusted_proxies: Annotated[
        str | None,
        typer.Option(
            metavar="NETWORK[,…]",
            help="Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, e.g. 10.0.0.0/8.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Fields of `Settings`."""
    trust(ca, insecure_http=insecure_http)
    cert = setting("tls_cert", str(tls_cert) if tls_cert else None, "")
    key = setting("tls_key", str(tls_key) if tls_key else None, "")
    if bool(cert) != bool(key):
        given, other = ("--tls-cert", "--tls-key") if cert else ("--tls-key", "--tls-cert")
        raise wrong(given, f"give {other} too: a certificate and its private key belong together")
    return {
        "tls_cert": os.path.abspath(cert) if cert else "",
        "tls_key": os.path.abspath(key) if key else "",
        "insecure_http": tls.allows_clear(),
        "trusted_proxies": _networks(setting("trusted_proxies", trusted_proxies, "")),
    }


def trust(ca: Path | None, *, insecure_http: bool) -> None:
    """Puts the options into this process's environment, after a check of the certificates."""
    if ca is not None:
        os.environ[tls.CA_VARIABLE] = str(ca.absolute())
    if insecure_http:
        os.environ[tls.CLEAR_VARIABLE] = "1"
    try:
        tls.check_authorities(os.environ.get(tls.CA_VARIABLE, ""))
    except tls.BadAuthorities as error:
        raise wrong("--ca", str(error)) from None


def check_exposure(settings: Settings) -> None:
    """Refuses a server node to which other machines would send their tokens in clear."""
    url = settings.advertised_url
    if settings.tls_cert and url.startswith("http://"):
        raise wrong("--url", f"{url} is not where a server with --tls-cert can be reached; write https://…")
    if settings.tls_cert and not settings.url and settings.host in ("0.0.0.0", "::"):
        right = f"https://NAME:{settings.port} with a name of its certificate"
        raise wrong("--url", f"give the address at which others reach this node: {right}")
    if settings.insecure_http or settings.tls_cert:
        return
    listens_beyond = not tls.is_loopback(settings.host) and not url.startswith("https://")
    if listens_beyond or tls.is_clear(url):
        option, value = ("--host", settings.host) if listens_beyond else ("--url", url)
        raise wrong(
            option,
            f"with {value} other machines reach this server, and tokens would travel in clear; `rota tls init --name "
            "HOST` makes a certificate for --tls-cert and --tls-key; if a proxy encrypts, give its address, "
            "--url https://…; if you trust the network, give --insecure-http",
        )


def _networks(text: str) -> tuple[Network, ...]:
    found: list[Network] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        try:
            found.append(ip_network(part))
        except ValueError:
            raise wrong(
                "--trusted-proxies", f"{part[:60]!r} is not a network; write one such as 10.0.0.0/8 or 192.0.2.7"
            ) from None
    return tuple(found)
