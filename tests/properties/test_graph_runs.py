"""Running part of a graph again, and reading one: random graphs against the rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.admit.graph_runs import Node, plan
from rota.model.task import State, Status, Upstream
from rota.observe.graph_view import Member, counted, critical_path, relatives, whole_status

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
START = datetime(2030, 1, 1, tzinfo=UTC)


@st.composite
def members(draw: st.DrawFn) -> list[Member]:
    """A graph in topological order, everybody in some state; those that began did so after nothing in particular."""
    found: list[Member] = []
    for number in range(1, draw(st.integers(1, 8)) + 1):
        parents = draw(st.lists(st.sampled_from(range(1, number)), max_size=3, unique=True)) if number > 1 else []
        began, ran = draw(st.tuples(st.integers(0, 50), st.integers(0, 50)))
        state = draw(st.sampled_from(list(State)))
        started = START + timedelta(seconds=began) if state in (State.DONE, State.FAILED, State.RUNNING) else None
        found.append(
            Member(
                id=number, name=f"t{number}", state=state,
                parents=tuple((parent, draw(st.sampled_from(list(Upstream)))) for parent in parents),
                started_at=started, created_at=START,
                ended_at=None if started is None or not state.terminal else started + timedelta(seconds=ran),
            )
        )  # fmt: skip
    return found


@given(members())
@SETTINGS
def test_a_retry_copies_what_can_run_and_nothing_that_would_be_skipped_again(graph: list[Member]) -> None:
    # Invariant: a chosen task is copied ⇔ each parent is copied, is live, or ended as the task wants; edges lead to the
    # copies, and only to what has not ended is waited for.
    chosen = [member for member in graph if member.state > State.DONE]
    new_ids = {member.id: member.id + 100 for member in chosen}
    ends = {member.id: member.state if member.state.terminal else None for member in graph if member.id not in new_ids}
    copies = {copy.old: copy for copy in plan([Node(one.id, one.parents) for one in chosen], new_ids, ends)}
    for member in chosen:
        fit = []
        for parent, rule in member.parents:
            end = ends.get(parent)
            fit.append(parent in copies or (parent in ends and (end is None or rule.met_by(end))))
        assert (member.id in copies) == all(fit)
    for copy in copies.values():
        own = next(member for member in chosen if member.id == copy.old)
        assert copy.after == tuple((copies[p].new if p in copies else p, rule) for p, rule in own.parents)
        live = {parent for parent, _ in copy.after if parent > 100 or ends.get(parent, State.DONE) is None}
        assert copy.waits_for == live


@given(members())
@SETTINGS
def test_a_graph_ends_when_everybody_has_and_is_done_when_nothing_went_wrong(graph: list[Member]) -> None:
    # Invariant: ended ⇔ nobody is live; failed ⇔ ended and somebody failed.
    states = [member.state for member in graph]
    status = whole_status(counted(states))
    live = any(not state.terminal for state in states)
    assert (status in (Status.WAITING, Status.IN_PROGRESS)) == live
    if not live:
        assert (status is Status.FAILED) == (State.FAILED in states)
        assert (status is Status.DONE) == (set(states) <= {State.DONE, State.SKIPPED})


@given(members())
@SETTINGS
def test_up_and_down_are_each_others_mirror(graph: list[Member]) -> None:
    # Invariant: b is above a ⇔ a is below b.
    above = {member.id: relatives(graph, [member.id], up=True) for member in graph}
    below = {member.id: relatives(graph, [member.id], up=False) for member in graph}
    assert all((one in above[other]) == (other in below[one]) for one in above for other in above)


@given(members())
@SETTINGS
def test_the_critical_path_ends_last_and_follows_edges(graph: list[Member]) -> None:
    # Invariant: its last task is the last to end, each comes after the one before, and the first began without a parent
    # that ran.
    now = START + timedelta(hours=1)
    path = critical_path(graph, now)
    begun = {member.id: member for member in graph if member.started_at is not None}
    if not begun:
        assert path == []
        return
    assert (path[-1].member.ended_at or now) == max(member.ended_at or now for member in begun.values())
    for before, after in pairwise(path):
        assert before.member.id in {parent for parent, _ in after.member.parents}
    assert not {parent for parent, _ in path[0].member.parents} & set(begun)
