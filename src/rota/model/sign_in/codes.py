"""Codes of a second factor: those that an app counts from the time (RFC 6238), and recovery codes. Pure.

A code of the app is good once: whoever looks over a shoulder is too late.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import datetime

from pyotp.totp import TOTP

STEP_SECONDS = 30
STEPS_AROUND = 1  # clocks differ, and people need time to type
RECOVERY_CODES = 10

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"  # without those that look alike
_GROUP = 5

Choose = Callable[[str], str]


def step_of(secret: str, code: str, *, now: datetime, after: int) -> int | None:
    """The step that the code is of, later than `after`; None: it is wrong, too old or was used."""
    digits = "".join(code.split())
    if not (digits.isascii() and digits.isdigit() and len(digits) == 6):
        return None
    app = TOTP(secret, interval=STEP_SECONDS)
    current = int(now.timestamp()) // STEP_SECONDS
    found = None
    for step in range(current - STEPS_AROUND, current + STEPS_AROUND + 1):
        if hmac.compare_digest(app.generate_otp(step), digits) and step > after:
            found = step
    return found


def new_recovery_code(choose: Choose) -> str:
    """`7k2pm-x9qwc`: 49 bits, and each is tried only as often as a password."""
    signs = [choose(_ALPHABET) for _ in range(2 * _GROUP)]
    return f"{''.join(signs[:_GROUP])}-{''.join(signs[_GROUP:])}"


def plain_recovery_code(text: str) -> str | None:
    """As it was made, however it was typed; None: no recovery code looks like this."""
    signs = "".join(text.split()).replace("-", "").lower()
    if len(signs) != 2 * _GROUP or any(sign not in _ALPHABET for sign in signs):
        return None
    return f"{signs[:_GROUP]}-{signs[_GROUP:]}"


def app_address(secret: str, *, user: str, place: str) -> str:
    """What the picture for the app says: `otpauth://…`."""
    return TOTP(secret, interval=STEP_SECONDS).provisioning_uri(name=user, issuer_name=f"Rota {place}".strip())
