"""What a password must be: long enough, possible to compare, and not among those that are tried first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.sign_in.common_passwords import is_common
from rota.model.sign_in.password_rules import MOST_BYTES, normalised, password_fault

GOOD = "violet kayak mumbles"


def test_a_password_alone_is_longer_than_one_beside_a_second_factor() -> None:
    assert "at least 15 characters" in str(password_fault("kayak mumbles", second_factor=False, names=()))
    assert password_fault("kayak mumbles", second_factor=True, names=()) is None
    assert "at least 8 characters" in str(password_fault("kayak!!", second_factor=True, names=()))
    assert password_fault(GOOD, second_factor=False, names=("ann",)) is None


def test_length_is_counted_in_characters_and_bounded_in_bytes() -> None:
    assert password_fault("ж" * 3 + " кит поёт утром", second_factor=False, names=()) is None
    assert "at most 256 bytes" in str(password_fault("кит поёт " * 40, second_factor=False, names=()))
    assert "NUL" in str(password_fault(f"{GOOD}\0", second_factor=False, names=()))
    assert "at most" in str(password_fault(f"{GOOD}\ud800", second_factor=False, names=()))


def test_two_ways_to_write_a_letter_are_one_password() -> None:
    assert normalised("cafe\u0301") == normalised("caf\u00e9")


@pytest.mark.parametrize(
    "password",
    [
        "passwordpassword",
        "Password123456!",
        "P@ssw0rd2024!!!!",
        "qwertyuiopasdfgh",
        "1q2w3e4r5t6y7u8i9o",
        "aaaaaaaaaaaaaaaa",
        "abcdefghijklmnop",
        "123456789012345",
        "1990-12-31",
        "xK9xK9xK9xK9xK9x",
        "summer2023summer",
        "rotarotarota2024",
        "letmeinplease123",
        "acmeacmeacme!!!!",
        "Ann-Miller-2025-Ann",
    ],
)
def test_what_is_tried_first_is_refused_also_when_it_is_joined(password: str) -> None:
    assert is_common(password, ["ann-miller", "acme"])


@pytest.mark.parametrize(
    "password",
    [GOOD, "ich mag gerne blaue Wale", "quiet-otter-92-lamp", "9f4b2c7e1d", "tr0ub4dor&3 gxz", "ацикломпотолок"],
)
def test_other_passwords_are_taken_without_rules_about_signs(password: str) -> None:
    assert not is_common(password, ["ann-miller", "acme"])


def test_the_refusal_does_not_repeat_the_password() -> None:
    assert "letmein" not in str(password_fault("letmeinletmein99", second_factor=False, names=()))


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=3))
def test_no_text_breaks_the_rules(text: str, names: list[str]) -> None:
    """Every text is judged: taken, or refused with a sentence. What is taken can be hashed."""
    if password_fault(text, second_factor=False, names=names) is None:
        assert len(normalised(text)) >= 15
        assert len(normalised(text).encode()) <= MOST_BYTES
