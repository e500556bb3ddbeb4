"""`rota audit` and the reasons of changes, against a server node."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.api.accounts.people import People
from tests.api.accounts.test_account_commands import Rota
from tests.api.accounts.test_account_commands import rota as rota  # a fixture
from tests.api.audit.writes import Making, name


def test_a_person_finds_out_who_cancelled_a_task_and_why(acme: People, rota: Callable[[str], Rota]) -> None:
    ann = acme.add_user("member", name=name())
    token = acme.token_of(ann, name="ci-7", scopes=["tasks:control", "tasks:read", "tasks:submit", "results:read"])
    own, boss = rota(token), rota(acme.user("admin"))
    task = Making(acme).task()
    own("hold", str(task), "--reason", "waits for data")
    own("release", str(task), "--reason", "data is there")
    own("edit", str(task), "--priority", "7", "--reason", "sooner")
    own("cancel", str(task), "--reason", "wrong input")
    shown = own("show", str(task))
    for verb, reason in (("held", "waits for data"), ("released", "data is there"), ("edited", "sooner")):
        assert f"{verb} by {ann} (token ci-7, cli) at " in shown
        assert f": {reason}\n" in shown
    lines = [line for line in shown.splitlines() if f"by {ann} (token" in line]
    assert "cancelled by" in lines[0], "newest first"
    assert lines[0].endswith(": wrong input")
    listed = boss("audit", "list", "--object", f"task:{task}")
    [title, *rows] = listed.splitlines()
    assert title.split() == ["ID", "TIME", "WHO", "BY", "WHAT", "OBJECT", "OUTCOME", "COUNT", "REASON"]
    assert [row.split()[3] for row in rows] == [ann] * 4
    edit = next(row.split()[0] for row in rows if "task.edit" in row)
    assert boss("audit", "show", edit).splitlines()[-2:] == ["- priority: 0", "+ priority: 7"]
    assert json.loads(boss("audit", "show", edit, "-o", "json"))["reason"] == "sooner"
    page = json.loads(boss("audit", "list", "--by", ann, "--action", "task.cancel", "-o", "json"))
    assert [one["object_id"] for one in page["entries"]] == [str(task)]


def test_cancelling_by_a_filter_takes_a_reason_too(acme: People, rota: Callable[[str], Rota]) -> None:
    making, etl = Making(acme), name()
    tasks = [making.task(name=etl) for _ in range(3)]
    own, boss = rota(acme.user("member")), rota(acme.user("admin"))
    own("cancel", "--name", etl, "--yes", "--reason", "all wrong")
    assert "with 2 others: all wrong\n" in own("show", str(tasks[0]))
    assert "all wrong" in boss("audit", "list", "--action", "operation.cancel")
    graph = making.graph()
    own("cancel", str(graph), "--reason", "no graph")
    assert "no graph" in boss("audit", "list", "--object", f"graph:{graph}")


def test_foreign_text_is_shown_and_not_obeyed(acme: People, rota: Callable[[str], Rota]) -> None:
    mark = name()
    acme.served.ask(
        """insert into audit_log (tenant, actor_kind, actor, action, object_kind, object_id, agent, before)
            values ($1, 'anonymous', $2, 'session.add', 'session', E'a\\x1b[2Jb', E'x\\x1b]0;t\\x07', '{"k\\u202e": "\\u001b[31m"}')""",
        acme.tenant_id,
        mark,
    )
    boss = rota(acme.user("admin"))
    listed = boss("audit", "list", "--by", mark)
    assert r"session:a\x1b[2Jb" in listed
    number = listed.splitlines()[1].split()[0]
    for said in (listed, boss("audit", "show", number), boss("audit", "export", "--by", mark, "--format", "csv")):
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert "\x07" not in said


def test_verify_and_export_say_the_head(
    acme: People, rota: Callable[[str], Rota], capfd: pytest.CaptureFixture[str]
) -> None:
    task = Making(acme).cancelled()
    root, boss = rota(acme.admin), rota(acme.user("admin"))
    [(row,)] = acme.served.ask("select max(id) from audit_log where object_id = $1", str(task))
    until = time.monotonic() + 30
    while acme.served.ask("select count(*) from audit_seals where $1 = any(ids)", row) != [(1,)]:
        assert time.monotonic() < until
    said = root("audit", "verify")
    assert "everything fits" in said
    head = said.splitlines()[-1].split()[1]
    assert "everything fits" in boss("audit", "verify", "--head", head, "--since", "1d")
    wrong = f"{head.partition(':')[0]}:{'0' * 64}"
    assert "head-unknown" in _out(rota, acme, "audit", "verify", "--head", wrong)
    found = json.loads(root("audit", "verify", "-o", "json"))
    assert (found["findings"], found["next"]) == ([], None)
    lines = root("audit", "export", "--object", f"task:{task}").splitlines()
    assert [json.loads(line)["action"] for line in lines] == ["task.cancel"]
    heading, *rest = root("audit", "export", "--object", f"task:{task}", "--format", "csv").splitlines()
    assert heading.startswith("id,at,tenant,")
    assert len(rest) == 1


def _out(rota: Callable[[str], Rota], acme: People, *arguments: str) -> str:
    """Of a command that finds something: it says so on standard output, with exit code 1."""
    document = rota(acme.admin)(*arguments, "-o", "json", fails=1)
    assert document == "", "nothing is an error here"
    answer = acme.send("GET", f"/v1/audit/verify?head={arguments[-1]}", token=acme.admin).json()
    return str(answer["findings"])


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (("list", "--outcome", "maybe"), "use one of done, denied, failed", 2),
        (("list", "--since", "soon"), "--since", 2),
        (("list", "--object", ":"), "write KIND:ID, such as task:12", 2),
        (("show", "999999999"), "there is no such row of the audit log", 3),
        (("verify", "--head", "7"), "write NUMBER:HASH", 2),
        (("export", "--format", "xml"), "--format", 2),
    ],
)
def test_wrong_use_is_one_sentence(
    acme: People, rota: Callable[[str], Rota], arguments: tuple[str, ...], said: str, code: int
) -> None:
    shown = rota(acme.admin)("audit", *arguments, fails=code)
    assert said in shown
    assert len(shown.splitlines()) == 1


def test_retention_of_the_log_takes_days(acme: People, rota: Callable[[str], Rota]) -> None:
    root = rota(acme.admin)
    assert "audit       500 days" in root("retention", "set", "--audit", "500d")
    assert "audit       400 days" in root("retention", "set", "--audit", "400")
    assert "400" in json.dumps(json.loads(root("retention", "show", "-o", "json"))["audit_days"])
