"""`rota user`, `rota service-account`, `rota token` and `rota whoami`, against a server node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.cli.main import run
from tests.api.accounts.people import People

Rota = Callable[..., str]


@pytest.fixture
def rota(
    acme: People, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[[str], Rota]:
    """Command lines with a token. Each gives stdout; with `fails`, stderr of one that ends with that exit code."""
    monkeypatch.setenv("ROTA_SERVER", acme.served.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")

    def with_token(token: str) -> Rota:
        def ran(*arguments: str, fails: int = 0) -> str:
            monkeypatch.setenv("ROTA_TOKEN", token)
            monkeypatch.setenv("ROTA_TENANT", "")
            capfd.readouterr()
            code = run(list(arguments))
            captured = capfd.readouterr()
            assert code == fails, captured.err
            return captured.err if fails else captured.out

        return ran

    return with_token


def test_a_team_from_nothing(acme: People, rota: Callable[[str], Rota]) -> None:
    root = rota(acme.admin)
    added = root("user", "add", "zoe", "--role", "admin", "--tenant", acme.tenant, "--email", "zoe@example.org")
    assert added.startswith(
        f"user zoe is made: admin at {acme.tenant}\nzoe sets a password with this link, once, until "
    )
    assert added.splitlines()[2].startswith(f"{acme.served.url}/ui/invitation?code=")
    boss = rota(acme.token_of("zoe", scopes=sorted({"users:read", "users:write", "tokens:write", *_MEMBER, *_ADMIN})))
    assert boss("user", "add", "yan", "--role", "viewer", "--tenant", acme.tenant).startswith("user yan is made")
    assert boss("user", "grant", "yan", "--role", "member", "--tenant", acme.tenant) == (
        f"yan: viewer at {acme.tenant}, member at {acme.tenant}\n"
    )
    assert (
        boss("user", "revoke", "yan", "--role", "viewer", "--tenant", acme.tenant) == f"yan: member at {acme.tenant}\n"
    )
    assert "yan" in boss("user", "list")
    shown = boss("user", "show", "zoe@example.org")
    assert "zoe@example.org" in shown
    assert f"admin at {acme.tenant}, given" in shown
    assert "is taken; if it is a user" in boss(
        "user", "add", "yan", "--role", "viewer", "--tenant", acme.tenant, fails=4
    )
    assert boss("user", "disable", "yan") == "user yan is disabled\n"
    assert "disabled" in boss("user", "list")
    assert boss("user", "enable", "yan") == "user yan is enabled\n"
    assert root("user", "set", "yan", "--email", "yan@example.org") == "user yan: yan@example.org\n"
    assert "only an administrator everywhere" in boss("user", "set", "yan", "--email", "none", fails=4)
    assert boss("user", "remove", "yan") == "user yan is removed\n"
    assert "no such user" in boss("user", "show", "yan", fails=3)
    assert boss("tenant", "set", acme.tenant, "--support", "on").endswith(", support on\n")
    assert "there is no such tenant" in boss("tenant", "set", "default", "--support", "on", fails=3)


_MEMBER = (
    "tasks:read", "tasks:submit", "tasks:control", "logs:read", "results:read", "artifacts:read", "artifacts:write",
    "schedules:read", "schedules:write", "secrets:read", "secrets:write", "events:read", "webhooks:read",
    "webhooks:write", "usage:read", "nodes:read",
)  # fmt: skip
_ADMIN = ("audit:read",)


def test_a_service_account_and_its_token(acme: People, rota: Callable[[str], Rota]) -> None:
    boss = rota(acme.user("admin"))
    made = boss("service-account", "add", "robot", "--role", "member", "--tenant", acme.tenant)
    assert made == f"service account robot of {acme.tenant} is made: member at {acme.tenant}\n"
    text = boss("token", "add", "--service-account", "robot", "--bundle", "ci", "--names", "etl-*", "--name", "deploy",
                "--from", "127.0.0.0/8").strip()  # fmt: skip
    assert text.startswith("rota_")
    robot = rota(text)
    who = robot("whoami")
    for part in (
        "service account",
        "robot",
        acme.tenant,
        "tasks:read,submit",
        "names etl-*; from 127.0.0.0/8",
        "token deploy",
    ):
        assert part in who
    document = json.loads(robot("whoami", "-o", "json"))
    assert (document["user"], document["names"]) == ("robot", ["etl-*"])
    listed = boss("token", "list")
    for part in ("deploy", "robot", "logs:read", "etl-*"):
        assert part in listed
    assert text not in listed
    assert "in 89d" in listed or "in 90d" in listed
    assert "this token is for" in robot("submit", "--name", "x", "--", "true", fails=4)
    assert int(robot("submit", "--name", "etl-1", "--", "true")) > 0
    second = boss("token", "rotate", "deploy", "--overlap", "1h").strip()
    assert second != text
    assert "robot" in rota(second)("whoami")
    assert "replaced by" in boss("token", "show", _id_of(boss, text))
    assert boss("token", "revoke", "deploy") == "token deploy is revoked\n"
    assert (
        boss("service-account", "revoke", "robot", "--role", "member", "--tenant", acme.tenant)
        == "robot: no role yet\n"
    )
    assert "robot" in boss("service-account", "list")
    assert boss("service-account", "disable", "robot") == "service account robot is disabled\n"
    assert boss("service-account", "enable", "robot") == "service account robot is enabled\n"
    assert "none yet" in boss("service-account", "show", "robot")
    assert boss("service-account", "remove", "robot") == "service account robot is removed\n"


def _id_of(rota: Rota, text: str) -> str:
    [found] = [one for one in json.loads(rota("token", "list", "-o", "json"))["tokens"] if one["public_id"] in text]
    return str(found["id"])


def test_somebody_with_two_tenants_chooses(acme: People, other: People, rota: Callable[[str], Rota]) -> None:
    name = acme.add_user("member")
    acme.give(name, "viewer", tenant=other.tenant)
    ran = rota(acme.token_of(name))
    assert "tasks:control" in (own := ran("whoami")).replace("control,read", "control")
    assert f"{other.tenant} (viewer)" in own
    elsewhere = json.loads(ran("--tenant", other.tenant, "whoami", "-o", "json"))
    assert (elsewhere["tenant"], elsewhere["role"]) == (other.tenant, "viewer")
    assert json.loads(ran(f"--tenant={other.tenant}", "whoami", "-o", "json"))["tenant"] == other.tenant
    for tenant in ("default", "none-such"):
        assert "there is no such tenant" in ran("--tenant", tenant, "whoami", fails=3)
