"""Credentials as attackers send them: malformed, doubled, in the wrong place, from the wrong tenant."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from rota.model.accounts.permissions import Role
from tests.api.served import Said, Served, problem


def _status(served: Served, *headers: bytes, path: str = "/v1/me") -> tuple[int, bytes]:
    """Sends the headers as they are; a client library would refuse some of them."""
    url = urlsplit(served.url)
    lines = [f"GET {path} HTTP/1.1".encode(), b"Host: rota", b"Connection: close", *headers, b"", b""]
    with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
        connection.sendall(b"\r\n".join(lines))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.fixture(scope="module")
def bearer(served: Served) -> bytes:
    return f"Authorization: Bearer {served.tokens['member']}".encode()


@pytest.mark.parametrize(
    "value",
    [
        b"", b"Bearer", b"Bearer ", b"Bearer \x80\xff", b"Bearer \xf0\x9f\x94\x91", b"Bearer " + b"A" * 8000,
        b"Bearer rota_" + b"a" * 12 + b"_" + b"A" * 8000, b"Bearer rota_\xc3\xa4aaaaaaaaaaa_" + b"A" * 43, b"Basic YTpi",
        b"Bearer ' or 1=1 --", b"Bearer session", b"Bearer rotatask_1_1_AAAA", b"Bearer rota_%00",
    ],
)  # fmt: skip
def test_a_malformed_token_is_no_token(served: Served, value: bytes) -> None:
    status, body = _status(served, b"Authorization: " + value)
    assert status == 401, body
    assert b'"send a valid token: `Authorization: Bearer rota_' in body


@pytest.mark.parametrize("value", [b"Bearer rota_\x00", b"Bearer a\x0bb", b"Bearer a\x7fb", b"\x00"])
def test_a_control_character_in_a_header_is_refused_before_anybody_reads_it(served: Served, value: bytes) -> None:
    for name in (b"Authorization: ", b"Rota-Tenant: ", b"Cookie: rota="):
        status, body = _status(served, name + value)
        assert status in (400, 401), body


def test_a_request_has_one_token_and_names_one_tenant(served: Served, bearer: bytes) -> None:
    assert _status(served, bearer)[0] == 200
    wrong = b"Authorization: Bearer rota_" + b"a" * 12 + b"_" + b"A" * 43
    for headers in ((bearer, wrong), (wrong, bearer), (bearer, bearer)):
        status, body = _status(served, *headers)
        assert status == 401, (headers, body)
    assert _status(served, bearer, b"Rota-Tenant: a", b"Rota-Tenant: b")[0] == 404


def test_very_many_headers_are_refused(served: Served, bearer: bytes) -> None:
    assert _status(served, bearer, *(b"X-%d: a" % number for number in range(4_000)))[0] == 431


@pytest.mark.parametrize("role", [Role.MEMBER, Role.VIEWER, Role.WORKER])
def test_a_tenant_that_a_token_has_no_role_at_is_not_there(served: Served, role: Role) -> None:
    """Whether a tenant of that name exists is not told either."""
    other, _ = served.add_tenant()
    for path in ("/v1/me", "/v1/tasks", "/v1/worker/leader", "/v1/nodes"):
        answers = [
            served.send("GET", path, token=served.tokens[role.value], headers={"rota-tenant": name})
            for name in (other, "t-no-such-tenant", "", "x" * 4000, "t'; drop table tenants; --", "\u00e9".encode())
        ]
        assert {problem(answer) for answer in answers} == {Said(404, "not-found")}
        assert {answer.json()["detail"] for answer in answers} == {"there is no such tenant"}


def test_where_a_request_came_from_is_not_what_it_says_of_itself(served: Served) -> None:
    """No proxy is configured: whatever a header says, the address is that of the connection."""
    token = served.add_token(served.add_tenant()[0])
    served.ask("update tokens set addresses = '{192.0.2.0/24}' where public_id = $1", token.split("_")[1])
    bearer = f"Authorization: Bearer {token}".encode()
    for header in (b"X-Forwarded-For: 192.0.2.7", b"Forwarded: for=192.0.2.7", b"X-Real-IP: 192.0.2.7"):
        status, body = _status(served, bearer, header)
        assert status == 403, body
        assert b"not from 127.0.0.1" in body
