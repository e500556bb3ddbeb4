"""Whether a call's arguments fit a function, and the values that it is called with: one set of rules for both sides.

A client judges a call before it sends it, a node before it calls the function; neither accepts what the other refuses.
Values are judged as JSON gives them. Those of types that JSON lacks are converted, all others stay as they are. What a
type checker accepts is accepted: a bool for an int, an int for a float, a parameter's own default. A parameter without
an annotation, or with one that can't be judged (see `annotations.py`), takes everything.

`rules_of` reads a function once. This module is imported lazily: `inspect` and `typing` are slow to load.
"""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Callable, Iterable

import msgspec

from rota.model.function.annotations import can_be_judged, converted, hints_of, needs_conversion
from rota.model.units import amount_text

MOST_FAULTS = 10  # shown; the others are counted
UNKNOWN = object()  # stands for a value that can't be judged; it fits
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
# Values of exactly these types fit, and need no further look.
_FITTING: dict[object, frozenset[type]] = {
    int: frozenset({int, bool}),
    float: frozenset({float, int, bool}),
    str: frozenset({str}),
    bool: frozenset({bool}),
    list: frozenset({list}),
    dict: frozenset({dict}),
}

Arguments = tuple[list[object], dict[str, object]]


class BadArguments(TypeError):
    """The function can't be called with these arguments; each fault names the argument, its value and its type."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        more = len(self.faults) - MOST_FAULTS
        shown = [*self.faults[:MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])]
        super().__init__("; ".join(shown))


class _Type:
    """The annotation of a parameter, as far as it is judged."""

    def __init__(self, annotation: object, parameter: inspect.Parameter | None) -> None:
        self.fitting: frozenset[type] = (
            _FITTING.get(annotation, frozenset()) if isinstance(annotation, type) else frozenset()
        )
        self._shown = annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
        self._annotation = _judged(annotation)
        self._converts = needs_conversion(annotation)
        self._default = inspect.Parameter.empty if parameter is None else parameter.default

    def fit(self, value: object) -> object:
        """The value that the function gets; `msgspec.ValidationError` if there is none."""
        if self._annotation is None:
            return value
        try:
            made = converted(value, self._annotation)
        except msgspec.ValidationError:
            if type(value) is type(self._default) and value == self._default:
                return value
            raise
        except Exception as error:  # noqa: BLE001 - a dataclass may run code of its own when it is made
            raise msgspec.ValidationError(f"{type(error).__name__}: {error}") from None
        return made if self._converts else value

    def fault(self, label: str, value: object, error: msgspec.ValidationError) -> str:
        text = f"{label} is {_short(value)}, but its type is {self._shown}"
        said = str(error)
        # What is wrong with the value as a whole is said already.
        return (
            text if said.startswith("Expected `") and " - at " not in said else f"{text}: {said[:1].lower()}{said[1:]}"
        )


class Rules:
    """What a function can be called with."""

    def __init__(
        self, signature: inspect.Signature, hints: dict[str, object], annotated: inspect.Signature, called: str
    ) -> None:
        """`annotated` has the parameters that the hints name: of a decorated function, those of the inner one."""
        self._of = f" of {called}" if called else ""
        self._parameters = signature.parameters
        self._positions = [one.name for one in signature.parameters.values() if one.kind in _BY_POSITION]
        self._rest, self._others = (_named(signature, kind) for kind in (_REST, _OTHERS))
        self._typed_positions = [one.name for one in annotated.parameters.values() if one.kind in _BY_POSITION]
        self._typed_rest, self._typed_others = (_named(annotated, kind) for kind in (_REST, _OTHERS))
        self._typed_names = set(annotated.parameters)
        own = signature.parameters
        self._types = {
            name: _Type(hint, annotated.parameters[name])
            for name, hint in hints.items()
            # A decorator may change arguments on their way in: only what must be converted is judged for the inner one.
            if name in annotated.parameters and (needs_conversion(hint) or (name in own and can_be_judged(hint)))
        }

    def __call__(self, arguments: list[object], named: dict[str, object]) -> Arguments:
        """The arguments to call it with; `BadArguments` with every fault."""
        faults = self._unbound(arguments, named)
        by_position = [self._one(*self._place(place), value, faults) for place, value in enumerate(arguments)]
        by_name = {
            name: self._one(name if name in self._typed_names else self._typed_others, name, value, faults)
            for name, value in named.items()
        }
        if faults:
            raise BadArguments(faults)
        return by_position, by_name

    def _place(self, place: int) -> tuple[str | None, str]:
        """The parameter of a positional argument, and what to call the argument."""
        if place < len(self._typed_positions):
            name = self._typed_positions[place]
            return name, name
        rest = self._typed_rest
        return rest, f"{rest}[{place - len(self._typed_positions)}]"

    def _one(self, parameter: str | None, label: str, value: object, faults: list[str]) -> object:
        kind = self._types.get(parameter) if parameter is not None else None
        if kind is None or type(value) in kind.fitting or value is UNKNOWN:
            return value
        try:
            return kind.fit(value)
        except msgspec.ValidationError as error:
            faults.append(kind.fault(f"argument {label}{self._of}", value, error))
            return value

    def _unbound(self, arguments: list[object], named: dict[str, object]) -> list[str]:
        """What is wrong with the number and the names of the arguments."""
        faults = []
        if len(arguments) > len(self._positions) and self._rest is None:
            most = len(self._positions)
            called = self._of.removeprefix(" of ") or "the function"
            faults.append(f"{called} takes {amount_text(most, 'positional argument')}, not {len(arguments)}")
        taken = set(self._positions[: len(arguments)])
        for name in named:
            parameter = self._parameters.get(name)
            if parameter is not None and parameter.kind in _BY_NAME:
                if name in taken:
                    faults.append(f"argument {name}{self._of} is given twice: by its position and by its name")
            elif self._others is None:
                faults.append(f"{name[:60]!r} names no argument{self._of}{self._near(name)}")
        for name, parameter in self._parameters.items():
            is_one = parameter.kind in _BY_POSITION or parameter.kind in _BY_NAME
            by_name = name in named and parameter.kind in _BY_NAME
            if is_one and parameter.default is inspect.Parameter.empty and name not in taken and not by_name:
                faults.append(f"argument {name}{self._of} is missing")
        return faults

    def _near(self, name: str) -> str:
        known = [one.name for one in self._parameters.values() if one.kind in _BY_NAME]
        near = difflib.get_close_matches(name, known, n=1)
        return f"; did you mean {near[0]}?" if near else ""


_REST, _OTHERS = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


def rules_of(function: Callable[..., object], called: str = "") -> Rules | None:
    """None when nothing can be said: Python does not know the parameters. `called` names the function in messages."""
    try:
        own = inspect.signature(function, follow_wrapped=False)
        inner = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    hints = {name: hint for name, hint in hints_of(function).items() if name != "return"}
    return Rules(own, hints, inner, called)


def _named(signature: inspect.Signature, kind: object) -> str | None:
    return next((one.name for one in signature.parameters.values() if one.kind is kind), None)


def _judged(annotation: object) -> object | None:
    """The annotation as values are judged by it; None if msgspec refuses it, as it does some unions."""
    for form in (_widened(annotation), annotation):
        try:
            converted(None, form)
        except msgspec.ValidationError:
            return form
        except Exception:  # noqa: BLE001 - whatever it is, the function is called without a judgement
            continue
        return form
    return None


def _widened(annotation: object) -> object:
    """The annotation with what type checkers accept too: a bool is an int, and both are floats."""
    if annotation is int:
        return int | bool
    if annotation is float:
        return float | bool
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(_widened(part) for part in parts)]  # noqa: UP007 - they are not known here
    if origin in (list, set, frozenset, tuple):
        return origin[tuple(part if part is Ellipsis else _widened(part) for part in parts)]
    if origin is dict:
        key, value = parts
        return dict[key, _widened(value)]  # type: ignore[valid-type,misc]
    return annotation


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
