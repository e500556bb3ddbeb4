"""Arguments and results of types that JSON lacks keep their types."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
from collections import ChainMap, UserDict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import MODULES
from tests.harness.cluster import Cluster

from rota.client._sync.client import Client
from rota.client.errors import ResultMismatch, TaskFailed
from rota.execute.child.context import SecretMap, TaskContext
from rota.model import strict_json
from rota.model.attempt import Input
from rota.model.function.annotations import converted, needs_conversion
from rota.model.secret import Secret

NUMBER = UUID("00000000-0000-4000-8000-000000000007")


@pytest.fixture(autouse=True)
def modules_on_path() -> Iterator[None]:
    sys.path.insert(0, str(MODULES))
    yield
    sys.path.remove(str(MODULES))


def test_dates_uuids_decimals_and_dataclasses_go_there_and_come_back(cluster: Cluster) -> None:
    from typed_tasks import Colour, Order, echo, later

    order = Order(NUMBER, date(2026, 2, 28), Decimal("19.90"))
    with cluster.client() as client:
        stamp = datetime(2026, 1, 1, tzinfo=UTC)
        handle = later.using(client).submit(order, timedelta(days=1), {Colour.RED}, stamp, stamp, note=b"\x00\xff")
        doubled = Order(NUMBER, date(2026, 3, 1), Decimal("39.80"), (1, 2), order)
        assert handle.result(30) == [order, doubled]
        assert client.gather([handle, handle], 30) == [[order, doubled]] * 2
        assert client.handle(handle.id).result(30)[0]["due"] == "2026-02-28"
        assert client.handle(handle.id).result(30, type=list[Order])[1] == doubled
        with pytest.raises(ResultMismatch, match=r"task \d+ is not a date: Expected `date`, got `array`"):
            client.handle(handle.id).result(30, type=date)
        day = date(2026, 1, 2)
        assert client.gather(echo.using(client).map([{7: day}, {}]), 30) == [{"7": day}, {}]


def test_an_argument_of_the_wrong_type_is_refused_by_its_name(client: Client) -> None:
    order = {"number": str(NUMBER), "due": "31 February", "price": "1"}
    with pytest.raises(
        TaskFailed,
        match=r"bad-argument: argument order is .*, but its type is Order: invalid RFC3339 encoded date - at `\$\.due`",
    ):
        client.submit(function="typed_tasks:later", args=[order, "P1D", ["red"]]).result(30)
    with pytest.raises(
        TaskFailed,
        match=r"argument order is missing; argument by is missing; argument colours is 'red', but its type is",
    ):
        client.submit(function="typed_tasks:later", args=[], kwargs={"colours": "red"}).result(30)


def test_annotations_that_cannot_be_known_leave_arguments_as_they_came(client: Client) -> None:
    assert client.submit(function="typed_tasks:unknown", args=[{"a": 1}, [2]]).result(30) == [{"a": 1}, [2]]


def test_a_call_of_a_plain_function_that_fits_loads_no_rules() -> None:
    program = """
import sys
from rota.execute.child.plain_arguments import check_of
def plain(a: int, b: "str", c: list, d: float = 1.0): ...
check_of(plain)([1, "b", []], {})
print("rota.model.function.typed_arguments" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


class Kind(enum.IntEnum):
    ONE = 1


rich = (
    st.dates()
    | st.datetimes(timezones=st.just(UTC))
    | st.uuids()
    | st.binary(max_size=20)
    | st.just(Kind.ONE)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**63), 2**63 - 1)
    | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1000))
)


@given(rich)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_what_a_function_may_return_comes_back_as_it_was(value: object) -> None:
    # Invariant: the type alone is enough to get back from JSON what was returned.
    back = converted(msgspec.json.decode(strict_json.encode({"deep": [value]})), dict[str, list[type(value)]])  # type: ignore[misc]
    assert back == {"deep": [value]}
    assert isinstance(value, int) or needs_conversion(type(value))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": [float("nan")]}, r"\['a'\]\[0\] is nan"),
        ({1: 2}, "has a key of type int"),
        ([object()], r"\[0\] is of type object"),
        (Exception("x"), "is of type Exception"),
        ({1j}, "is of type complex"),
    ],
)
def test_what_would_not_come_back_is_refused_by_name_and_place(value: object, why: str) -> None:
    with pytest.raises(strict_json.NotJson, match=why):
        strict_json.encode(value)


CONTEXT = TaskContext(
    9,
    1,
    "key",
    "sum",
    secrets=SecretMap([Secret("TOKEN", "s3cret")]),
    inputs=(Input(5, "part", b"1"), Input(6, "part", b"[2]"), Input(7, "total", b'{"a": 3}')),
)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (CONTEXT.results, {"part": [2], "5": 1, "total": {"a": 3}}),
        ({"deep": [CONTEXT.results]}, {"deep": [{"part": [2], "5": 1, "total": {"a": 3}}]}),
        (dict.fromkeys(["a"], 1).items(), [["a", 1]]),
        (MappingProxyType({"a": {"b": ChainMap({"c": 1})}}), {"a": {"b": {"c": 1}}}),
        (UserDict(a=10**30), {"a": 10**30}),
        (CONTEXT.devices, {}),
        (CONTEXT.secrets, {"TOKEN": "s3cret"}),
    ],
)
def test_what_a_function_reads_in_its_context_it_may_return(value: object, result: object) -> None:
    assert json.loads(strict_json.encode(value)) == result


def test_a_context_that_is_returned_shows_its_results_and_no_inner_fields() -> None:
    shown = json.loads(strict_json.encode([CONTEXT]))[0]
    assert shown["results"] == {"part": [2], "5": 1, "total": {"a": 3}}
    assert (shown["task_id"], shown["name"]) == (9, "sum")
    assert {"inputs", "call"}.isdisjoint(shown)


def test_a_result_that_was_too_large_to_be_passed_on_is_not_returned_silently() -> None:
    context = TaskContext(9, 1, "key", "sum", inputs=(Input(5, "part", None),))
    with pytest.raises(
        strict_json.NotJson, match=r"the result\['r'\] can't be read: the result of task 5 \(part\) is too"
    ):
        strict_json.encode({"r": context.results})
