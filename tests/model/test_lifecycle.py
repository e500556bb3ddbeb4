"""The table of legal transitions, and the drawing that is made from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rota.model.lifecycle import FIRST, MEANING, diagram, page
from rota.model.task import LIVE, STATUS, TERMINAL, TRANSITIONS, State

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"


def test_the_page_in_docs_is_what_the_table_gives() -> None:
    assert PAGE.read_text() == page(), "run: python -m rota.model.lifecycle > docs/lifecycle.md"


def test_the_command_the_page_names_makes_the_page() -> None:
    made = subprocess.run([sys.executable, "-m", "rota.model.lifecycle"], stdout=subprocess.PIPE, check=True, text=True)
    assert made.stdout == page()


def test_every_transition_is_drawn_once_and_nothing_else() -> None:
    arrows = [line.split() for line in diagram().splitlines()[1:]]
    drawn = [(before, after) for before, _, after in arrows if "[*]" not in (before, after)]
    table = [(before.label, after.label) for before, afters in TRANSITIONS.items() for after in afters]
    assert sorted(drawn) == sorted(table)
    assert len(drawn) == len(set(drawn))


def test_every_state_has_a_row_a_status_and_a_meaning() -> None:
    assert set(TRANSITIONS) == set(STATUS) == set(MEANING) == set(State)
    assert set(LIVE) | set(TERMINAL) == set(State)


def test_a_terminal_state_is_never_left() -> None:
    assert {state: TRANSITIONS[state] for state in TERMINAL} == {state: frozenset() for state in TERMINAL}


def test_every_state_can_be_reached_and_every_live_one_can_end() -> None:
    assert _reachable(set(FIRST)) == set(State)
    for state in LIVE:
        assert _reachable({state}) & set(TERMINAL), f"{state.label} never ends"


def _reachable(found: set[State]) -> set[State]:
    while True:
        more = found.union(*(TRANSITIONS[state] for state in found))
        if more == found:
            return found
        found = more
