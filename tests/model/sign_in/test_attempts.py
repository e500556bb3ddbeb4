"""Which attempts are counted together."""

from __future__ import annotations

import pytest

from rota.model.sign_in.attempts import OF_ADDRESS, OF_ALL, WAIT_SECONDS, account_key, address_key


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("10.1.2.3", "10.1.2.200", True),
        ("10.1.2.3", "10.1.3.3", False),
        ("::ffff:10.1.2.3", "10.1.2.9", True),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        (None, "not an address", True),
    ],
)
def test_the_addresses_of_one_network_are_counted_together(one: str | None, other: str, together: bool) -> None:
    assert (address_key(one) == address_key(other)) is together


def test_a_name_is_counted_in_any_case_of_letters_and_not_kept_as_text() -> None:
    assert account_key("Ann") == account_key("ann") != account_key("bob")
    assert "ann" not in account_key("ann")
    assert len(account_key("x" * 10_000)) < 60


def test_rates_and_waits_are_as_promised() -> None:
    assert (OF_ADDRESS.seconds_each, OF_ALL.seconds_each) == (3, 0.3)
    assert WAIT_SECONDS[0] == 60
    assert WAIT_SECONDS[-1] == 15 * 60
    assert list(WAIT_SECONDS) == sorted(WAIT_SECONDS)
