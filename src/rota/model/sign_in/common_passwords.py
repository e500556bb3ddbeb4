"""Which passwords are tried first: common words, names, years and runs of keys, alone or joined. Pure.

Lists of leaked passwords are millions of lines made by few habits. Here the habits are written down: what is left of a
password without common parts must be something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LEAST_LEFT = 4  # characters that no habit explains
_SHORTEST_NAME = 3

_LIST = """
password passwort passphrase passwd pass secret geheim contrasena motdepasse parola senha kennwort welcome willkommen
bienvenue letmein login signin logon access admin administrator root user guest test tester testing demo default
changeme change please temp temporary system server service cluster database data backup master super superuser
manager operator owner member account office work home house love loveyou iloveyou lovely honey baby babygirl sweet
angel princess prince queen king friend friends family mother father sister brother daddy mommy sunshine sunflower
flower butterfly rainbow summer winter spring autumn monday tuesday wednesday thursday friday saturday sunday january
february march april may june july august september october november december monkey dragon tiger lion eagle falcon
shadow wolf horse chicken cookie banana orange apple cherry chocolate pepper ginger cheese coffee pizza butter
football baseball basketball soccer hockey tennis golf racing player ninja hunter killer ranger warrior soldier batman
superman spiderman starwars pokemon matrix minecraft naruto michael jordan jennifer jessica ashley daniel andrew
thomas robert charlie matthew joshua anthony william david james john maria anna alexander george harley maggie buster
bailey freedom forever whatever trustno trust nothing hello hallo bonjour hola world internet computer laptop google
facebook microsoft windows linux apple android samsung nokia python java docker kubernetes postgres redis mustang
ferrari porsche mercedes corvette yamaha magic lucky happy silver golden diamond crystal purple yellow orange green
black white blue red london paris berlin madrid america canada england germany australia texas dallas chicago
correcthorsebatterystaple abc qaz wsx edc asdf zxcv qwer the this that is my me you your our one two
"""
_WORDS = frozenset(_LIST.split())
_KEYBOARD = (
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "qwertzuiop",
    "yxcvbnm",
    "azertyuiop",
    "qsdfghjklm",
    "wxcvbn",
    "1234567890",
    "0987654321",
    "1q2w3e4r5t6y7u8i9o0p",
    "q1w2e3r4t5y6u7i8o9p0",
    "qazwsxedcrfvtgbyhnujmikolp",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p",
    "!@#$%^&*()",
    "abcdefghijklmnopqrstuvwxyz",
)
_RUNS = tuple(row for one in _KEYBOARD for row in (one, one[::-1]))
_SHORTEST_RUN = 3
# How people write letters with other signs.
_AS_LETTERS = str.maketrans({"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i"})
_YEAR = re.compile(r"(?:19|20)\d\d")
_REST = re.compile(r"[\W\d_]+")


def is_common(password: str, names: Iterable[str] = ()) -> bool:
    """`names`: words that somebody would try for this user: its name, its tenants, the program."""
    text = password.casefold()
    words = {*_WORDS, "rota", *_parts(names)}
    longest = max(map(len, words))
    plain, written = (_left(one, words, longest) for one in (text, text.translate(_AS_LETTERS)))
    return min(plain, written) < LEAST_LEFT or _is_repeated(text)


def _parts(names: Iterable[str]) -> set[str]:
    found = {part for name in names for part in [name.casefold(), *_REST.split(name.casefold())]}
    return {part for part in found if len(part) >= _SHORTEST_NAME}


def _left(text: str, words: set[str], longest: int) -> int:
    """How many different characters are left after the common parts."""
    left: list[str] = []
    at = 0
    while at < len(text):
        step = max(_word_at(text, at, words, longest), _run_at(text, at), _same_at(text, at), _year_at(text, at))
        if step == 0:
            left.append(text[at])
        at += step or 1
    return len(set(_REST.sub("", "".join(left)))) if any(map(str.isalpha, left)) else _digits_left(left)


def _digits_left(left: list[str]) -> int:
    """Digits and signs alone explain themselves up to eight: a birthday, a telephone number."""
    return 0 if len(left) <= 8 else len(set(left))


def _word_at(text: str, at: int, words: set[str], longest: int) -> int:
    return next((size for size in range(min(longest, len(text) - at), 1, -1) if text[at : at + size] in words), 0)


def _run_at(text: str, at: int) -> int:
    best = 0
    for row in _RUNS:
        start = row.find(text[at])
        if start >= 0:
            size = 1
            while at + size < len(text) and start + size < len(row) and text[at + size] == row[start + size]:
                size += 1
            best = max(best, size)
    return best if best >= _SHORTEST_RUN else 0


def _same_at(text: str, at: int) -> int:
    size = 1
    while at + size < len(text) and text[at + size] == text[at]:
        size += 1
    return size if size >= _SHORTEST_RUN else 0


def _year_at(text: str, at: int) -> int:
    return 4 if _YEAR.match(text, at) else 0


def _is_repeated(text: str) -> bool:
    """`xK9xK9xK9xK9xK9`: a short piece again and again."""
    return any(text == (text[:size] * len(text))[: len(text)] for size in range(1, min(6, len(text))))
