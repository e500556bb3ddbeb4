"""What a password must be (NIST SP 800-63B-4): long enough, and not one that everybody tries first. Pure.

There are no rules about kinds of characters, and nobody has to change a password because of its age.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rota.model.sign_in.common_passwords import is_common

LEAST_ALONE = 15  # characters, for a password that is the only factor
LEAST_WITH_SECOND = 8
MOST_BYTES = 256


def normalised(password: str) -> str:
    """One form of each text: keyboards differ in how they write `é`."""
    return unicodedata.normalize("NFC", password)


def password_fault(password: str, *, second_factor: bool, names: Iterable[str]) -> str | None:
    """What is wrong with a new password, as a sentence; None: nothing. `names`: of the user, and where it works.

    The sentence never repeats the password.
    """
    text = normalised(password)
    least = LEAST_WITH_SECOND if second_factor else LEAST_ALONE
    if len(text) < least:
        more = "" if second_factor else f"; with a second factor, {LEAST_WITH_SECOND} are enough"
        return f"a password has at least {least} characters{more}"
    if not can_be_hashed(text):
        return f"a password has at most {MOST_BYTES} bytes and no NUL"
    if is_common(text, names):
        return "this password is easy to guess: it is made of common words, names or runs of keys; take another one"
    return None


def can_be_hashed(text: str) -> bool:
    """Nobody has a longer one: what is longer is wrong without any work."""
    if "\0" in text:
        return False
    try:
        return len(text.encode()) <= MOST_BYTES
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False
