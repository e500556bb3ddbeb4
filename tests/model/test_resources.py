"""The resource vector: exact sums, fits in every dimension, dominant share."""

from __future__ import annotations

import pytest

from rota.model.resources import Resources
from tests.decide.clockwork import dominant_share_ppm

ROOM = Resources(cpu_milli=4000, memory_bytes=8, disk_bytes=9, gpus=1, ports=2, custom={"license": 3})


def test_adding_and_taking_away_again_gives_the_same() -> None:
    part = Resources(cpu_milli=1500, memory_bytes=1, disk_bytes=2, gpus=1, ports=1, custom={"license": 2, "tape": 1})
    assert ROOM.plus(part).minus(part).minus(ROOM) == Resources(custom={"license": 0, "tape": 0})


def test_what_is_asked_fits_in_exactly_as_much() -> None:
    assert ROOM.fits_in(ROOM)


@pytest.mark.parametrize(
    "more",
    [
        Resources(cpu_milli=1), Resources(memory_bytes=1), Resources(disk_bytes=1), Resources(gpus=1),
        Resources(ports=1), Resources(custom={"license": 1}), Resources(custom={"tape": 1}),
    ],
)  # fmt: skip
def test_one_more_of_anything_does_not_fit(more: Resources) -> None:
    assert not ROOM.plus(more).fits_in(ROOM)


def test_the_dominant_share_is_the_largest_over_all_resources() -> None:
    asked = Resources(cpu_milli=1000, memory_bytes=4, custom={"license": 1})
    assert dominant_share_ppm(asked, ROOM) == 500_000


def test_a_resource_the_whole_has_none_of_counts_for_nothing() -> None:
    assert dominant_share_ppm(Resources(custom={"tape": 5}), ROOM) == 0
