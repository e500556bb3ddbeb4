"""The rules of logins: codes as people type them, whose address counts as whose, and what becomes of a code."""

from __future__ import annotations

import random
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.accounts import logins as rules
from rota.model.accounts.logins import Standing, Verdict
from rota.model.errors import FaultList


def test_a_new_code_is_read_however_it_is_typed() -> None:
    code = rules.new_user_code(random.Random(1).choice)
    plain = code.replace("-", "")
    for typed in (code, plain, code.lower(), f" {plain[:4]} {plain[4:]} ", "-".join(plain), f"{plain}\n"):
        assert rules.user_code_of(typed) == code


@given(st.text(max_size=20))
def test_no_text_is_read_as_a_code_that_could_not_have_been_shown(typed: str) -> None:
    code = rules.user_code_of(typed)
    assert code is None or rules.user_code_of(code) == code
    if code is not None:
        assert set(code) <= set("BCDFGHJKLMNPQRSTVWXZ-")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7/32"),
        ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::1", "::/64"),
    ],
)
def test_one_user_of_ipv6_is_one_network(address: str, network: str) -> None:
    assert rules.network_of(address) == ip_network(network)
    assert rules.network_of(None) is None


def test_the_challenge_is_that_of_the_standard() -> None:
    """RFC 7636, appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert rules.challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


_VERIFIER = "v" * 43
_CHALLENGE = rules.challenge_of(_VERIFIER)


@pytest.mark.parametrize(
    ("standing", "verifier", "verdict"),
    [
        (None, None, Verdict.UNKNOWN),
        (Standing(used=False, expired=False, allowed=None), None, Verdict.PENDING),
        (Standing(used=False, expired=False, allowed=None, too_soon=True), None, Verdict.TOO_SOON),
        (Standing(used=False, expired=False, allowed=False, too_soon=True), None, Verdict.DENIED),
        (Standing(used=False, expired=False, allowed=True, too_soon=True), None, Verdict.GOOD),
        (Standing(used=False, expired=True, allowed=True), None, Verdict.EXPIRED),
        (Standing(used=True, expired=True, allowed=True), None, Verdict.USED),
        (Standing(used=True, expired=False, allowed=True, challenge=_CHALLENGE), "wrong", Verdict.USED),
        (Standing(used=False, expired=False, allowed=True, challenge=_CHALLENGE), _VERIFIER, Verdict.GOOD),
        (Standing(used=False, expired=False, allowed=True, challenge=_CHALLENGE), None, Verdict.WRONG_VERIFIER),
        (Standing(used=False, expired=False, allowed=True, challenge=_CHALLENGE), _CHALLENGE, Verdict.WRONG_VERIFIER),
        (Standing(used=False, expired=True, allowed=True, challenge=_CHALLENGE), _VERIFIER, Verdict.EXPIRED),
    ],
)
def test_what_becomes_of_a_code(standing: Standing | None, verifier: str | None, verdict: Verdict) -> None:
    assert rules.judged(standing, verifier) is verdict


@given(st.text(max_size=120), st.text(max_size=20) | st.floats() | st.none(), st.text(max_size=50) | st.none())
def test_what_is_asked_for_is_bounded_or_a_fault(machine: str, lasts: float | str | None, tenant: str | None) -> None:
    faults = FaultList()
    asked = rules.asked(machine, lasts, tenant, faults)
    if not faults.faults:
        assert asked.token_name.isascii()
        assert asked.token_name.isprintable()
        assert len(asked.token_name) <= 100
        assert 60 <= asked.lasts.total_seconds() <= 366 * 86400
    assert all(len(fault.detail) < 300 for fault in faults.faults)
