"""The cycle finder against a brute-force search on random graphs."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.model.graph import find_cycle, topological_order

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """parents[i] are the indexes that i comes after."""
    size = draw(st.integers(1, 9))
    return draw(st.lists(st.lists(st.integers(0, size - 1), max_size=3), min_size=size, max_size=size))


def _reaches(parents: list[list[int]], start: int) -> set[int]:
    found: set[int] = set()
    frontier = set(parents[start])
    while frontier:
        found |= frontier
        frontier = {parent for index in frontier for parent in parents[index]} - found
    return found


@given(graphs())
@SETTINGS
def test_a_cycle_is_found_exactly_if_a_task_waits_for_itself(parents: list[list[int]]) -> None:
    # Invariant: find_cycle is empty ⇔ no index reaches itself; what it names really is a cycle.
    cycle = find_cycle(parents)
    assert bool(cycle) == any(index in _reaches(parents, index) for index in range(len(parents)))
    for place, index in enumerate(cycle):
        assert index in parents[cycle[(place + 1) % len(cycle)]]
    assert len(set(cycle)) == len(cycle)


@given(graphs())
@SETTINGS
def test_the_order_has_every_task_that_waits_for_no_cycle_after_its_parents(parents: list[list[int]]) -> None:
    # Invariant: an index is in the order ⇔ neither it nor anything it waits for is in a cycle; parents come first.
    order = topological_order(parents)
    in_cycle = {index for index in range(len(parents)) if index in _reaches(parents, index)}
    free = [i for i in range(len(parents)) if i not in in_cycle and not _reaches(parents, i) & in_cycle]
    assert sorted(order) == free
    place = {index: number for number, index in enumerate(order)}
    assert all(place[parent] < place[child] for child in order for parent in parents[child])
