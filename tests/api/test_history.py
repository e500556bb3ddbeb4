"""The history of a task over HTTP: the attempt that runs, and the lane that each ran in."""

from __future__ import annotations

from typing import Any

from tests.api.served import Served


def run(served: Served, task: int, *, lane: int) -> None:
    """As a start writes it; there is no worker here."""
    served.ask(
        """update queue set state = 4, attempt = attempt + 1, version = version + 1, node = 1, boot = 1, epoch = 1, grace_ms = 600000,
            started_at = now() - interval '1 minute', wake_at = null, ran_lane = $2 where id = $1 returning 1""",
        task, lane,
    )  # fmt: skip


def end(served: Served, task: int) -> None:
    """As a settlement writes it."""
    served.ask("delete from queue where id = $1 returning 1", task)
    served.ask(
        """insert into attempts (task, number, tenant, state, outcome, node, started_at, run_us, lane)
        values ($1, 1, $2, 10, 1, 1, now() - interval '1 minute', 59000000, 0) returning 1""",
        task, served.tenant,
    )  # fmt: skip


def attempts(served: Served, task: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.send("GET", f"/v1/tasks/{task}/attempts").json()["attempts"]
    return found


def test_the_attempt_that_runs_is_among_the_attempts(served: Served) -> None:
    task = served.submit()
    assert attempts(served, task) == []
    run(served, task, lane=1)
    [one] = attempts(served, task)
    assert (one["number"], one["node"], one["lane"]) == (1, "n", "normal")
    assert one["started_at"] is not None
    assert [one[name] for name in ("outcome", "state", "ended_at", "run_seconds", "cpu_seconds")] == [None] * 5
    assert served.send("GET", f"/v1/tasks/{task}/attempts", token=served.stranger).status_code == 404


def test_the_lane_a_task_ran_in_is_shown_beside_the_original_one_while_it_runs_and_after_its_end(
    served: Served,
) -> None:
    task = served.submit(tolerance="10m")

    def lanes() -> tuple[str, str]:
        document = served.send("GET", f"/v1/tasks/{task}").json()
        [listed] = served.send("GET", f"/v1/tasks?name={document['name']}&limit=1").json()["tasks"]
        assert listed["lane"] == document["lane"]
        return document["lane"], document["submitted_lane"]

    assert lanes() == ("normal", "normal")
    served.ask("update queue set wake_at = now() where id = $1 returning 1", task)
    assert lanes() == ("urgent", "normal"), "its start-by time is near"
    run(served, task, lane=0)
    assert lanes() == ("urgent", "normal")
    end(served, task)
    assert lanes() == ("urgent", "normal")
    assert [one["lane"] for one in attempts(served, task)] == ["urgent"]


def test_an_edited_lane_is_that_of_a_task_that_never_ran(served: Served) -> None:
    task = served.submit()
    assert served.send("PATCH", f"/v1/tasks/{task}", {"lane": "off-peak", "version": 0}).status_code == 200
    served.send("POST", f"/v1/tasks/{task}/cancel")
    document = served.send("GET", f"/v1/tasks/{task}").json()
    assert (document["lane"], document["submitted_lane"]) == ("off-peak", "normal")
