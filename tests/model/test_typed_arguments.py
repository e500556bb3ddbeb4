"""A client and a node judge the arguments of a call by the same rules, and accept what a type checker accepts."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Literal, Optional, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.client.checked_arguments import CheckedArguments
from rota.execute.child.plain_arguments import check_of
from rota.model.function.typed_arguments import BadArguments


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 0.0


class Row(TypedDict):
    name: str


class Own:
    pass


def plain(left: int, right: int = 3) -> int:
    return left + right


def rich(day: date, point: Point, *more: int, colour: Colour = Colour.RED, **named: timedelta) -> None: ...


def containers(rows: list[Row], by_day: dict[date, int] | None = None, pair: tuple[int, str] = (1, "a")) -> None: ...


def loose(anything, own: Own, none: int = None, *, word: Literal["a", "b"] = "a") -> None: ...  # type: ignore[no-untyped-def, assignment]  # noqa: RUF013


def positional(first: str, /, second: float, *, third: bool) -> None: ...


def empty() -> None: ...


def passing(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function("injected", *args, **kwargs)

    return wrapper


@passing
def injected(connection: str, number: int) -> None: ...


FUNCTIONS = [plain, rich, containers, loose, positional, empty, injected, max, Point, functools.partial(plain, 1)]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.sampled_from(["red", "2030-01-31", "P1D", "a", "1.5"])
    | st.dates()
    | st.uuids()
    | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9))
    | st.sampled_from(Colour)
    | st.builds(Point, st.integers(0, 9), st.just(1.5))
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2))  # fmt: skip
names = st.sampled_from(["left", "right", "day", "point", "colour", "rows", "own", "word", "first", "second", "third", "number", "x", "other"])  # fmt: skip


def client_refuses(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        rules(function).sendable(args, kwargs)
    except BadArguments:
        return True
    return False


def node_refuses(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    sent = msgspec.json.decode(msgspec.json.encode([args, kwargs]))
    try:
        check(function)(*sent)
    except BadArguments:
        return True
    return False


@functools.cache
def rules(function: Any) -> CheckedArguments:
    return CheckedArguments(function)


@functools.cache
def check(function: Any) -> Callable[..., Any]:
    return check_of(function)


@given(st.sampled_from(FUNCTIONS), st.lists(values, max_size=4), st.dictionaries(names, values, max_size=3))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_a_client_refuses_a_call_exactly_if_a_node_does(function: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    # Invariant: one verdict, whoever judges.
    assert client_refuses(function, tuple(args), kwargs) == node_refuses(function, tuple(args), kwargs)


@given(st.sampled_from(FUNCTIONS), st.lists(values, max_size=4), st.dictionaries(names, values, max_size=3))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_accepted_python_can_call(function: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    if node_refuses(function, tuple(args), kwargs):
        return
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:
        return
    signature.bind(*args, **kwargs)


whole = st.integers() | st.booleans()
numbers = st.floats(allow_nan=False, allow_infinity=False) | whole
points = st.builds(Point, st.integers(), st.floats(allow_nan=False, allow_infinity=False))
KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, whole),
    (float, numbers),
    (str, st.text()),
    (bytes, st.binary()),
    (date, st.dates()),
    (timedelta, st.timedeltas(timedelta(0), timedelta(days=99))),
    (UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Colour, st.sampled_from(Colour)),
    (Point, points),
    (list[int], st.lists(whole)),
    (dict[str, float], st.dictionaries(st.text(), numbers)),
    (int | None, whole | st.none()),
    (Optional[list[date]], st.lists(st.dates()) | st.none()),  # noqa: UP045
    (tuple[int, str], st.tuples(whole, st.text())),
    (set[int], st.sets(st.integers())),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (dict[str, list[Point]], st.dictionaries(st.text(), st.lists(points))),
    (dict[UUID, int], st.dictionaries(st.uuids(), whole)),
    (list[int | str | None], st.lists(whole | st.text() | st.none())),
]


def _taking(kind: Any) -> Callable[[Any], None]:
    def function(value: Any) -> None: ...

    function.__annotations__ = {"value": kind}
    return function


TAKING = [(_taking(kind), strategy) for kind, strategy in KINDS]


@given(st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_every_value_of_a_parameters_type_is_accepted(data: st.DataObject) -> None:
    function, strategy = data.draw(st.sampled_from(TAKING))
    value = data.draw(strategy)
    [sent], _ = rules(function).sendable((value,), {})
    assert not node_refuses(function, (sent,), {})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "faults"),
    [
        (plain, ("x", 3), {}, ["argument left is 'x', but its type is int"]),
        (
            plain,
            ("x",),
            {"right": None},
            ["argument left is 'x', but its type is int", "argument right is None, but its type is int"],
        ),
        (plain, (), {}, ["argument left is missing"]),
        (plain, (1, 2, 3), {}, ["the function takes 2 positional arguments, not 3"]),
        (empty, (1,), {}, ["the function takes 0 positional arguments, not 1"]),
        (plain, (1,), {"left": 2}, ["argument left is given twice: by its position and by its name"]),
        (
            plain,
            ("x",),
            {"rigth": 2},
            ["'rigth' names no argument; did you mean right?", "argument left is 'x', but its type is int"],
        ),
        (positional, (), {"first": "a", "second": 1, "third": True}, ["'first' names no argument", "argument first is missing"]),
        (
            rich,
            ("31 February", {"x": "1"}, 2, "3"),
            {"wait": "soon"},
            [
                "argument day is '31 February', but its type is date: invalid RFC3339 encoded date",
                "argument point is {'x': '1'}, but its type is Point: expected `int`, got `str` - at `$.x`",
                "argument more[1] is '3', but its type is int",
                "argument wait is 'soon', but its type is timedelta: invalid ISO8601 duration",
            ],
        ),
        (loose, (object, [1]), {"none": None, "word": "a"}, []),
        (loose, (1, 2), {"word": "c"}, ["argument word is 'c', but its type is Literal['a', 'b']: invalid enum value 'c'"]),
        (injected, (1,), {}, []),
    ],
)  # fmt: skip
def test_every_fault_is_named_with_the_argument_its_value_and_its_type(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], faults: list[str]
) -> None:
    found: tuple[str, ...] = ()
    try:
        check_of(function)(list(args), kwargs)
    except BadArguments as error:
        found = error.faults
    assert list(found) == faults


def test_a_value_that_needs_no_conversion_arrives_as_it_was_given() -> None:
    def function(number: float, flag: int, items: list[float]) -> None: ...

    arguments, _ = check_of(function)([3, True, [1, 2.5]], {})
    assert [type(one) for one in (*arguments[:2], *arguments[2])] == [int, bool, int, float]  # type: ignore[misc]


def test_many_faults_are_counted_after_the_first_ten() -> None:
    with pytest.raises(BadArguments, match=r"; and 15 more$") as caught:
        CheckedArguments(plain).many_sendable([("x",)] * 25)
    assert str(caught.value).startswith(
        "item 1: argument left of tests.model.test_typed_arguments:plain is 'x', but its type is int; item 2: "
    )
    assert len(caught.value.faults) == 25
