"""Behind a proxy a request has its client's address, and nobody can choose the address that he has."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from rota.server.trusted_proxies import TrustedProxies
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


async def seen(peer: str | None, *headers: tuple[str, str], kind: str = "http", scheme: str = "http") -> Any:
    """The address and the scheme that the application behind sees."""
    found: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope)

    given = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    client = None if peer is None else (peer, 4711)
    scope = {"type": kind, "client": client, "scheme": scheme, "headers": given}
    await TrustedProxies(application, PROXIES)(scope, None, None)  # type: ignore[arg-type]
    client = found[0]["client"]
    return (client and client[0], found[0]["scheme"])


FOR, PROTO = "x-forwarded-for", "x-forwarded-proto"


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.2.3.4, 203.0.113.9"], "203.0.113.9"),  # the client wrote the first one
        ("10.0.0.1", ["1.2.3.4", "203.0.113.9"], "203.0.113.9"),  # two headers are one list
        ("10.0.0.1", ["1.2.3.4, 203.0.113.9, 10.9.9.9"], "203.0.113.9"),  # two proxies of ours
        ("10.0.0.1", ["10.7.7.7, 10.9.9.9"], "10.7.7.7"),  # a client among the proxies' own addresses
        ("10.0.0.1", ["203.0.113.9, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9, "], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9:8080"], "203.0.113.9"),
        ("10.0.0.1", ["[2001:db8::7]:443"], "2001:db8::7"),
        ("10.0.0.1", ["2001:db8::7"], "2001:db8::7"),
        ("10.0.0.1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("::ffff:10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("fd00::1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("203.0.113.5", ["127.0.0.1"], "203.0.113.5"),  # no proxy of ours: its header says nothing
        ("203.0.113.5", ["127.0.0.1, 10.0.0.1"], "203.0.113.5"),
        (None, ["203.0.113.9"], None),  # a socket of this machine
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_the_last_address_that_is_no_proxy_of_ours_counts(
    peer: str | None, forwarded: list[str], address: str | None, kind: str
) -> None:
    assert (await seen(peer, *[(FOR, value) for value in forwarded], kind=kind))[0] == address


@pytest.mark.parametrize(
    ("peer", "said", "kind", "scheme"),
    [
        ("10.0.0.1", "https", "http", "https"),
        ("10.0.0.1", "https", "websocket", "wss"),
        ("10.0.0.1", "http, HTTPS", "http", "https"),  # the nearest proxy's word
        ("10.0.0.1", "gopher", "http", "http"),
        ("203.0.113.5", "https", "http", "http"),
    ],
)
async def test_only_a_proxy_of_ours_says_how_browsers_reach_it(peer: str, said: str, kind: str, scheme: str) -> None:
    assert (await seen(peer, (PROTO, said), kind=kind))[1] == scheme


def test_a_token_for_certain_addresses_works_behind_the_proxy_and_cannot_be_talked_into_another(
    postgres: TestPostgres, tmp_path: Path
) -> None:
    with Cluster(postgres.create(), tmp_path, time_scale=CALM) as cluster:
        for trusted in ("127.0.0.0/8", "10.0.0.0/8"):
            cluster.add_server(ROTA_TRUSTED_PROXIES=trusted)
        believing, other = cluster.urls
        admin = {"authorization": f"Bearer {cluster.tokens.admin}"}
        wanted = {"scopes": ["tasks:read"], "addresses": ["203.0.113.0/24"]}
        account = {"name": "ci", "role": "member", "tenant": "default"}
        assert httpx.post(f"{believing}/v1/service-accounts", json=account, headers=admin).status_code < 300
        made = httpx.post(
            f"{believing}/v1/tokens", json={"service_account": "ci", "name": "far", **wanted}, headers=admin
        )
        assert made.status_code < 300, made.text
        own = {"authorization": f"Bearer {made.json()['token']}"}

        def asked(server: str, *forwarded: str) -> int:
            headers = [*own.items(), *[(FOR, each) for each in forwarded]]
            return httpx.get(f"{server}/v1/tasks", headers=headers, trust_env=False).status_code

        assert asked(believing, "203.0.113.9") == 200
        assert asked(believing, "203.0.113.9, 198.51.100.1") == 403, "the client wrote the first one"
        assert asked(believing) == 403
        assert asked(other, "203.0.113.9") == 403, "this connection comes from no proxy that it trusts"
