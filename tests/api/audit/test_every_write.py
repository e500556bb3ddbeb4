"""Every route that writes leaves one row of the audit log, in the transaction of the change, or is in the list of exceptions.

Each request is sent twice: first its row is refused by a trigger, and then nothing may have changed, so that the same
request succeeds and leaves its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.api.accounts.people import People
from tests.api.audit.writes import ASKS, EXCEPTIONS, WRITES, Making
from tests.api.served import Served


@pytest.fixture(scope="module")
def refusing(served: Served) -> Iterator[None]:
    """Rows of requests whose id begins so can't be written."""
    served.ask(
        """create function refuse_row() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$"""
    )
    served.ask(
        """create trigger refused before insert on audit_log for each row when (new.request_id like 'refused-%')
            execute function refuse_row()"""
    )
    yield
    served.ask("drop trigger refused on audit_log")
    served.ask("drop function refuse_row")


def test_every_route_that_writes_is_asked_or_excepted() -> None:
    assert sorted(ASKS.keys() & EXCEPTIONS.keys()) == []
    assert sorted(WRITES.keys() - ASKS.keys() - EXCEPTIONS.keys()) == [], "audit it, or say here why not"
    assert sorted((ASKS.keys() | EXCEPTIONS.keys()) - WRITES.keys()) == []


@pytest.mark.parametrize("route", list(ASKS))
def test_a_write_and_its_row_are_one_transaction(acme: People, refusing: None, route: str) -> None:
    making = Making(acme)
    ask = ASKS[route](making)
    method, path = WRITES[route]
    for kind, value in ask.path.items():
        path = path.replace(f"{{{kind}}}", str(value))

    def send(request_id: str) -> int:
        own = ask.headers if ask.user else making.headers
        headers = {**own, "x-request-id": request_id, "user-agent": "rota-cli"}
        token = None if ask.user else acme.admin
        return acme.send(method, path, ask.body, token=token, headers=headers, params=ask.query).status_code

    assert send(f"refused-{uuid4().hex}") == 500
    request_id = uuid4().hex
    assert send(request_id) in (200, 201, 204)
    rows = acme.served.ask(
        """select action, object_id, outcome, via, actor_kind, actor, credential, host(address), tenant
            from audit_log where request_id = $1 order by id""",
        request_id,
    )
    [(public,)] = acme.served.ask("select id from tokens where public_id = $1", acme.admin.split("_")[1])
    assert [row[0] for row in rows] == list(ask.rows or (ask.action,))
    for _, target, outcome, via, kind, actor, credential, address, tenant in rows:
        if ask.target is not None:
            assert target == str(ask.target)
        who = ("user", ask.user) if ask.user else ("service", "admin")
        assert (outcome, via, kind, actor, address) == ("done", "cli", *who, "127.0.0.1")
        assert credential.startswith("session ") if ask.user else credential in (f"token {public}", "token admin")
        if route not in ("add_tenant", "change_tenant", "pause_tenant", "resume_tenant", "change_settings"):
            assert tenant == (acme.tenant_id if ask.tenant else None)
        else:
            assert acme.served.ask("select name from tenants where id = $1", tenant) == [(ask.target,)]


def test_no_row_has_a_secret(acme: People) -> None:
    """After all of them: neither values, nor hashes, nor what an address carries."""
    [(found,)] = acme.served.ask(
        r"""select count(*) from audit_log
            where concat(reason, before::text, after::text, selection::text) ~ 'hidden-value|token=x|secret_hash'"""
    )
    assert found == 0
