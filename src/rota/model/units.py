"""Converts human units to integers and back: `1.5`, `500m`, `512M`, `5k`, `2h30m`, `PT3H`. Pure.

A `ValueError` names the value and what would be right.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SECONDS = {
    unit: Decimal(n) for unit, n in (("ms", "0.001"), ("s", 1), ("m", 60), ("h", 3600), ("d", 86400), ("w", 604800))
}
MOST_DIGITS = 400  # a float has no more
_BYTES_TEXT = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\Z", re.IGNORECASE | re.ASCII)
_COUNT_TEXT = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmg])?\Z", re.IGNORECASE | re.ASCII)
_BITS_TEXT = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmgt])?(?:bit)?(?:/s)?\Z", re.IGNORECASE | re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_DURATION_TEXT = re.compile(r"^(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+\Z", re.ASCII)
_ISO = re.compile(r"^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?\Z", re.ASCII)


def bytes_of(value: int | str) -> int:
    """`536870912`, `512M` (10^6), `512Mi` (2^20) → bytes."""
    if isinstance(value, int):
        return value
    return int(_scaled(value, _BYTES_TEXT, "a size; write bytes or a number with K, M, G, T (or Ki, Mi, …)"))


def cpu_milli_of(value: float | int | str) -> int:
    """`1.5`, `"1.5"`, `"500m"` → thousandths of a core."""
    text = str(value).strip()
    scale = 1 if text.endswith("m") else 1000
    amount = _number(text.removesuffix("m"))
    if amount is None:
        raise ValueError(f"{shown(value)} is not a number of cores; write 1.5 or 500m")
    milli = amount * scale
    if milli != milli.to_integral_value():
        raise ValueError(f"{shown(value)} is finer than a thousandth of a core")
    return int(milli)


def amount_text(number: int, noun: str, plural: str | None = None) -> str:
    """`1 day`, `2 days`, `1,000 days`; `plural` for a noun that takes more than an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_of(value: int | str) -> int:
    """`5000`, `"5k"`, `"1.5M"` → a whole number of things."""
    if isinstance(value, int):
        return value
    total = _scaled(value, _COUNT_TEXT, "an amount; write a whole number, or one with k, M, G")
    if total != total.to_integral_value():
        raise ValueError(f"{shown(value)} is not a whole number; write one such as 10")
    return int(total)


def kbit_of(value: int | str) -> int:
    """Bits per second, `100000000` or `"100M"` → thousands of them, rounded up."""
    if isinstance(value, int):
        return value if value < 0 else -(-value // 1000)
    return -(-int(_scaled(value, _BITS_TEXT, "a bandwidth; write bits per second, or a number with k, M, G")) // 1000)


def gpus_of(value: float | int | str) -> tuple[int, int]:
    """`2` → two whole devices, (2, 0); `0.5` → half of one, (0, 500)."""
    amount = _number(str(value).strip())
    if amount is None:
        raise ValueError(f"{shown(value)} is not a number of GPUs; write 1, 2, … or a fraction of one such as 0.5")
    if amount == amount.to_integral_value():
        return int(amount), 0
    if not 0 < amount < 1:
        raise ValueError(f"{shown(value)} is neither whole GPUs (1, 2, …) nor a fraction of one (such as 0.5)")
    milli = amount * 1000
    if milli != milli.to_integral_value():
        raise ValueError(f"{shown(value)} is finer than a thousandth of a GPU")
    return 0, int(milli)


def milliseconds_of(value: float | int | str) -> int:
    """`90`, `"90s"`, `"2h30m"`, `"PT3H"` → milliseconds. A bare number is seconds."""
    if isinstance(value, int | float):
        return _milliseconds(_number(str(value)), value)
    text = value.strip()
    if len(text) > MOST_DIGITS:
        return _milliseconds(None, value)
    if _DURATION_TEXT.match(text):
        parts = _DURATION_PART.findall(text)
        return _milliseconds(sum((Decimal(number) * _SECONDS[unit] for number, unit in parts), Decimal(0)), value)
    iso = _ISO.match(text)
    if iso and any(iso.groups()):
        weights = (604800, 86400, 3600, 60, 1)
        total = sum((Decimal(p) * w for p, w in zip(iso.groups(), weights, strict=True) if p), Decimal(0))
        return _milliseconds(total, value)
    return _milliseconds(_number(text), value)


def _milliseconds(seconds: Decimal | None, value: object) -> int:
    if seconds is None:
        raise ValueError(f"{shown(value)} is not a duration; write seconds, 2h30m or PT3H")
    return int(seconds * 1000)


def _scaled(value: str, pattern: re.Pattern[str], right: str) -> Decimal:
    """The number times its unit. `right`: what the value should be."""
    match = pattern.match(value.strip())
    amount = None if match is None else _number(match[1])
    if match is None or amount is None:
        raise ValueError(f"{shown(value)} is not {right}")
    return amount * _FACTORS[(match[2] or "").lower()]


def _number(text: str) -> Decimal | None:
    """None: no number, or one like `1e500000`, which takes minutes to convert to an integer."""
    if len(text) > MOST_DIGITS:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= MOST_DIGITS else None


def shown(value: object) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def kbit_text(amount: int) -> str:
    """Thousands of bits per second for people: 100M."""
    return bytes_text(amount * 1000)


def bytes_text(amount: int) -> str:
    """Bytes for people: 1.5G."""
    size = float(amount)
    for unit in ("", "K", "M", "G"):
        if size < 1000:
            return f"{size:.3g}{unit}"
        size /= 1000
    return f"{size:.4g}T"


def duration_text(milliseconds: int) -> str:
    """A duration for people, without loss: 2h30m, 1m5s, 500ms."""
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        amount, milliseconds = divmod(milliseconds, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"
