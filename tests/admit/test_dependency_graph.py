"""Dependencies inside one batch: names become indexes, cycles are named, and every fault has its pointer."""

from __future__ import annotations

from rota.admit.judge.dependency_graph import MOST_PARENTS, resolve_references
from rota.model.errors import Fault
from rota.model.graph import find_cycle, topological_order
from rota.model.request.task_request import TaskRequest
from rota.model.task import Upstream


def _batch(**after: list[int | str]) -> tuple[list[list[int]], list[Fault]]:
    """A batch of named tasks and what each comes after."""
    tasks = [TaskRequest(command=["true"], ref=name, after=list(parents)) for name, parents in after.items()]
    faults: list[Fault] = []
    parents, _ = resolve_references(tasks, [f"/tasks/{index}" for index in range(len(tasks))], faults)
    return [list(own) for own in parents], faults


def test_names_become_indexes_in_the_batch_in_any_order() -> None:
    assert _batch(c=["a", "b"], a=[], b=["a"]) == ([[1, 2], [], [1]], [])


def test_ids_are_left_to_the_store_and_repeats_count_once() -> None:
    assert _batch(a=[], b=["a", 7, "a"]) == ([[], [0]], [])


def test_a_cycle_is_named_in_the_order_in_which_its_tasks_wait() -> None:
    _, faults = _batch(a=["c"], b=["a"], c=["b"], d=["a"])
    assert faults == [Fault("/tasks/1/after", "dag-cycle", "these wait for each other: b → c → a → b")]


def test_a_task_that_waits_for_itself_is_a_cycle() -> None:
    _, faults = _batch(a=["a"])
    assert faults == [Fault("/tasks/0/after", "dag-cycle", "these wait for each other: a → a")]


def test_every_unknown_name_is_reported_where_it_stands() -> None:
    _, faults = _batch(a=["x"], b=["a", "y"])
    assert [(fault.pointer, fault.code) for fault in faults] == [
        ("/tasks/0/after/0", "unknown-dependency"),
        ("/tasks/1/after/1", "unknown-dependency"),
    ]


def test_a_parent_is_wanted_done_ended_or_failed_and_only_one_of_them() -> None:
    tasks = [
        TaskRequest(command=["true"], ref="a"),
        TaskRequest(command=["true"], ref="b"),
        TaskRequest(command=["true"], ref="c", after=["a"], after_end=["b"], after_failed=[7]),
        TaskRequest(command=["true"], ref="d", after=["a"], after_failed=["a", 7], after_end=[7]),
    ]
    faults: list[Fault] = []
    parents, rules = resolve_references(tasks, [f"/tasks/{index}" for index in range(len(tasks))], faults)
    assert (parents[2], rules[2]) == ([0, 1], {1: Upstream.RUN})
    assert [(fault.pointer, fault.code) for fault in faults] == [
        ("/tasks/3/after_failed/0", "unknown-dependency"),
        ("/tasks/3/after_failed/1", "unknown-dependency"),
    ]


def test_one_name_for_two_tasks_is_refused() -> None:
    tasks = [TaskRequest(command=["true"], ref="a") for _ in range(2)]
    faults: list[Fault] = []
    resolve_references(tasks, ["/tasks/0", "/tasks/1"], faults)
    assert faults == [Fault("/tasks/1/ref", "dag-cycle", "the ref 'a' is used twice")]


def test_more_parents_than_allowed_are_refused() -> None:
    _, faults = _batch(a=list(range(1, MOST_PARENTS + 2)))
    assert [(fault.pointer, fault.code) for fault in faults] == [("/tasks/0/after", "dag-too-large")]


def test_an_order_puts_everybody_after_its_parents() -> None:
    parents = [[1, 2], [2], [], [0]]
    order = topological_order(parents)
    assert sorted(order) == [0, 1, 2, 3]
    assert all(order.index(parent) < order.index(child) for child, own in enumerate(parents) for parent in own)


def test_an_order_leaves_out_tasks_that_wait_for_a_cycle() -> None:
    assert topological_order([[1], [0], [0], []]) == [3]
    assert find_cycle([[], [0], [0, 1]]) == []


def test_every_circle_is_named_not_only_the_first() -> None:
    faults: list[Fault] = []
    tasks = [
        TaskRequest(command=["x"], ref="a", after=["b"]), TaskRequest(command=["x"], ref="b", after=["a"]),
        TaskRequest(command=["x"], ref="c", after=["c"]),
    ]  # fmt: skip
    resolve_references(tasks, ["/tasks/0", "/tasks/1", "/tasks/2"], faults)
    assert [fault.detail.split(": ")[1] for fault in faults] == ["c → c", "b → a → b"]
