"""Human units: what is read, and that nonsense is refused in a sentence, quickly."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rota.model.units import (
    bytes_of,
    bytes_text,
    count_of,
    cpu_milli_of,
    duration_text,
    gpus_of,
    kbit_of,
    kbit_text,
    milliseconds_of,
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        (0, 0),
        ("1024", 1024),
        ("512M", 512_000_000),
        ("512m", 512_000_000),
        ("512Mi", 512 * 2**20),
        ("1.5G", 1_500_000_000),
        ("2GB", 2_000_000_000),
        ("1 Ki", 1024),
        (" 3T ", 3 * 10**12),
        ("1Ti", 2**40),
    ],
)
def test_sizes(text: int | str, amount: int) -> None:
    assert bytes_of(text) == amount


@pytest.mark.parametrize(
    ("text", "milli"),
    [(1, 1000), (0.5, 500), ("1.5", 1500), ("500m", 500), ("0.001", 1), (" 2 ", 2000), ("1e1", 10_000), (-1, -1000)],
)
def test_cores(text: float | str, milli: int) -> None:
    assert cpu_milli_of(text) == milli


@pytest.mark.parametrize(("text", "amount"), [(7, 7), ("7", 7), ("5k", 5000), ("1.5M", 1_500_000), (" 2G ", 2 * 10**9)])
def test_amounts(text: int | str, amount: int) -> None:
    assert count_of(text) == amount


@pytest.mark.parametrize(
    ("text", "kbit"),
    [
        (0, 0),
        (1, 1),
        (100_000_000, 100_000),
        ("100M", 100_000),
        ("1.5Gbit/s", 1_500_000),
        ("10k", 10),
        ("999", 1),
        (-1, -1),
    ],
)
def test_bandwidths(text: int | str, kbit: int) -> None:
    assert kbit_of(text) == kbit


@pytest.mark.parametrize(
    ("text", "devices"), [(0, (0, 0)), (2, (2, 0)), (2.0, (2, 0)), (0.5, (0, 500)), ("0.125", (0, 125)), ("1", (1, 0))]
)
def test_gpus_are_whole_or_a_fraction_of_one(text: float | str, devices: tuple[int, int]) -> None:
    assert gpus_of(text) == devices


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        (90, 90_000),
        (0.25, 250),
        ("90", 90_000),
        ("90s", 90_000),
        ("1500ms", 1500),
        ("2h30m", 9_000_000),
        ("1w2d", 9 * 86_400_000),
        ("1.5h", 5_400_000),
        ("PT3H", 10_800_000),
        ("P1DT1M", 86_460_000),
        ("PT0.5S", 500),
        ("P2W", 14 * 86_400_000),
        (-5, -5000),
    ],
)
def test_durations(text: float | str, milliseconds: int) -> None:
    assert milliseconds_of(text) == milliseconds


@pytest.mark.parametrize(
    ("convert", "text"),
    [
        (bytes_of, ""), (bytes_of, "-1"), (bytes_of, "5X"), (bytes_of, "1e9"), (bytes_of, "٣"), (bytes_of, "1 2"),
        (bytes_of, "9" * 10_000),
        (cpu_milli_of, ""), (cpu_milli_of, "lots"), (cpu_milli_of, "nan"), (cpu_milli_of, "Infinity"),
        (cpu_milli_of, "0.0001"), (cpu_milli_of, "m"), (cpu_milli_of, "1e500000"), (cpu_milli_of, "1e999999999"),
        (count_of, ""), (count_of, "1.5"), (count_of, "much"), (count_of, "1Ki"), (kbit_of, "fast"), (kbit_of, "-5M"),
        (gpus_of, "1.5"), (gpus_of, "-0.5"), (gpus_of, "0.0001"), (gpus_of, "half"), (gpus_of, "nan"),
        (milliseconds_of, ""), (milliseconds_of, "soon"), (milliseconds_of, "P"), (milliseconds_of, "PT"),
        (milliseconds_of, "5x"), (milliseconds_of, "nan"), (milliseconds_of, "1e999999"),
        (milliseconds_of, "9" * 100_000 + "w"), (milliseconds_of, "P" + "9" * 100_000 + "W"),
        (milliseconds_of, "2026-01-01"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_one_short_sentence_and_at_once(convert: Callable[[str], int], text: str) -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"is (not|neither|finer)") as error:
        convert(text)
    assert len(str(error.value)) < 200
    assert time.monotonic() - began < 1, "six letters must not cost a server seconds"


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0"), (999, "999"), (1500, "1.5K"), (256_000_000, "256M"), (5 * 10**15, "5000T")]
)
def test_sizes_for_people(amount: int, text: str) -> None:
    assert bytes_text(amount) == text


def test_bandwidths_for_people() -> None:
    assert [kbit_text(kbit) for kbit in (1, 1500, 100_000, 10_000_000)] == ["1K", "1.5M", "100M", "10G"]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0s"), (10, "10ms"), (1500, "1s500ms"), (60_000, "1m"), (3_603_000, "1h3s"), (2_592_000_000, "30d")],
)
def test_a_duration_is_shown_exactly_and_can_be_read_back(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text
    assert not milliseconds or milliseconds_of(text) == milliseconds
