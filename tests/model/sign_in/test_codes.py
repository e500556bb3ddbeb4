"""Codes of a second factor: good around their time, once, and typed as people type."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

import pyotp
import pytest

from rota.model.sign_in.codes import STEP_SECONDS, new_recovery_code, plain_recovery_code, step_of

SECRET = "JBSWY3DPEHPK3PXP"
NOW = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)
STEP = int(NOW.timestamp()) // STEP_SECONDS


def code(step: int) -> str:
    return pyotp.TOTP(SECRET).generate_otp(step)


@pytest.mark.parametrize("around", [-1, 0, 1])
def test_a_code_is_good_one_step_before_and_after_its_time(around: int) -> None:
    assert step_of(SECRET, code(STEP + around), now=NOW, after=0) == STEP + around


@pytest.mark.parametrize("around", [-3, -2, 2, 3])
def test_other_codes_are_not(around: int) -> None:
    assert step_of(SECRET, code(STEP + around), now=NOW, after=0) is None


def test_a_used_code_and_those_before_it_are_good_no_more() -> None:
    assert step_of(SECRET, code(STEP), now=NOW, after=STEP) is None
    assert step_of(SECRET, code(STEP - 1), now=NOW, after=STEP) is None
    later = NOW + timedelta(seconds=STEP_SECONDS)
    assert step_of(SECRET, code(STEP + 1), now=later, after=STEP) == STEP + 1


@pytest.mark.parametrize("text", ["", "12345", "1234567", "abcdef", "１２３４５６", "-12345"])
def test_what_is_not_six_digits_is_no_code(text: str) -> None:
    assert step_of(SECRET, text, now=NOW, after=0) is None


def test_a_code_may_be_typed_with_spaces() -> None:
    digits = code(STEP)
    assert step_of(SECRET, f" {digits[:3]} {digits[3:]}", now=NOW, after=0) == STEP


def test_a_recovery_code_is_read_however_it_is_typed() -> None:
    made = new_recovery_code(secrets.choice)
    assert plain_recovery_code(made) == made
    assert plain_recovery_code(f" {made.upper().replace('-', ' ')} ") == made
    assert plain_recovery_code(made[:-1]) is None
    assert plain_recovery_code("123456") is None
