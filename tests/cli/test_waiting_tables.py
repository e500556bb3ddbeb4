"""How an estimated start reads: what waits for something does not start now."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.cli.tables import waiting_tables
from rota.model.answers.waiting import PreviewDocument, PreviewGroup, TaskExplanation


def explained(reason: str, basis: str) -> str:
    return waiting_tables.why(
        TaskExplanation(
            id=7,
            state="ready",
            status="waiting",
            reason=reason,
            sentence="because",
            estimated_start=datetime.now(UTC),
            basis=basis,
            tolerance_seconds=None,
            tolerance_source="plan",
            blocked_by=[],
            blocked_by_count=0,
            start_by=None,
        )
    )


@pytest.mark.parametrize(
    ("reason", "basis", "words"),
    [
        ("soon", "free-now", "now, by the resources that are free now"),
        ("key-busy", "concurrency-key", "in a moment, by when tasks with its key should end"),
        ("no-free-resources", "running-tasks", "in a moment, by when running tasks, and those before it, should end"),
    ],
)
def test_only_what_is_free_now_starts_now(reason: str, basis: str, words: str) -> None:
    assert words in explained(reason, basis)


def test_the_others_of_a_group_deep_in_the_queue_are_not_called_unknown() -> None:
    group = PreviewGroup(
        first=0,
        tasks=100,
        state="ready",
        name="sleep",
        reason="no-free-resources",
        sentence="none is free",
        estimated_start=datetime(2100, 1, 1, tzinfo=UTC),
        basis="throughput",
        tolerance_seconds=None,
        tolerance_source="plan",
        starting_now=0,
        last_start=None,
        without_start=99,
    )
    one = PreviewDocument(accepted=True, tasks=100, groups=[group])
    text = waiting_tables.preview(one)
    assert "99 after it" in text
    assert "unknown" not in text
