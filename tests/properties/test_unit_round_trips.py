"""Human units: what is written is what is read, in every way of writing it, and no text makes trouble."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rota.model.units import bytes_of, bytes_text, cpu_milli_of, milliseconds_of

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
FACTORS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@given(st.integers(0, 10**9), st.sampled_from(list(FACTORS)), st.sampled_from(["", "B", "b"]), st.booleans())
@SETTINGS
def test_sizes_with_any_unit(amount: int, unit: str, suffix: str, lower: bool) -> None:
    # Invariant: "<n><unit>" is n times the unit, however it is spelled.
    text = f"{amount}{unit}{suffix}"
    assert bytes_of(text.lower() if lower else text) == amount * FACTORS[unit]


@given(st.integers(1, 10**15))
@SETTINGS
def test_a_size_for_people_is_read_back_within_its_precision(amount: int) -> None:
    # Invariant: three digits are kept: reading what was shown is at most half a percent off.
    assert abs(bytes_of(bytes_text(amount)) - amount) <= amount * 0.0051


@given(st.integers(1, 10**7))
@SETTINGS
def test_cores_in_all_three_ways(milli: int) -> None:
    # Invariant: 1500m, 1.5 and "1.5" are the same.
    cores = Decimal(milli) / 1000
    assert cpu_milli_of(f"{milli}m") == cpu_milli_of(str(cores)) == cpu_milli_of(float(cores)) == milli


@given(st.integers(0, 9), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
@SETTINGS
def test_durations_in_both_notations(days: int, hours: int, minutes: int, seconds: int, ms: int) -> None:
    # Invariant: 1d2h3m4s5ms, its ISO form and the bare seconds are the same number of milliseconds.
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + ms
    assert milliseconds_of(f"{days}d{hours}h{minutes}m{seconds}s{ms}ms") == total
    assert milliseconds_of(f"P{days}DT{hours}H{minutes}M{seconds}.{ms:03}S") == total
    assert milliseconds_of(str(Decimal(total) / 1000)) == total


@given(st.text(max_size=40) | st.from_regex(r"-?[0-9.]{1,20}([eE][+-]?[0-9]{1,9})?[a-zA-Z]{0,2}", fullmatch=True))
@example("1e999999999")
@example("1E500000m")
@example("sNaN")
@SETTINGS
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    # Invariant: nothing but ValueError ever comes out, and nothing absurdly large.
    for convert in (bytes_of, cpu_milli_of, milliseconds_of):
        try:
            amount = convert(text)
        except ValueError:
            continue
        assert isinstance(amount, int)
        assert abs(amount) < 10**420


@given(st.floats() | st.integers(-(2**63), 2**63 - 1))
@SETTINGS
def test_any_number_is_read_or_a_value_error(number: float) -> None:
    # Invariant: JSON numbers, odd ones too, are converted or refused.
    for convert in (cpu_milli_of, milliseconds_of):
        try:
            assert isinstance(convert(number), int)
        except ValueError:
            continue
