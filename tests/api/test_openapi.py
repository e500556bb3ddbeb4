"""The OpenAPI document says what the routes really take."""

from __future__ import annotations

import inspect
import re
import sys

from fastapi.routing import APIRoute

from rota.api.app import ROUTERS
from rota.api.query_parameters import QUERY
from tests.api.served import Served

_CHECK = re.compile(r"check_query\([^,]+, (.+)\)\n")


def _taken() -> dict[tuple[str, str], set[str]]:
    """What each route lets pass, read off its own code."""
    found = {}
    for route in (route for router in ROUTERS for route in router.routes):
        if not isinstance(route, APIRoute) or not route.include_in_schema:
            continue
        check = _CHECK.search(inspect.getsource(route.endpoint))
        names = eval(check[1], vars(sys.modules[route.endpoint.__module__])) if check else set()  # noqa: S307
        if names:
            found |= {(method.lower(), route.path): names for method in route.methods}
    return found


def test_every_query_parameter_that_a_route_takes_is_in_the_document_and_no_other() -> None:
    assert {key: {one.name for one in parameters} for key, parameters in QUERY.items()} == _taken()


def test_the_document_has_them(served: Served) -> None:
    document = served.send("GET", "/openapi.json").json()
    parameters = document["paths"]["/v1/tasks"]["get"]["parameters"]
    assert [one["name"] for one in parameters if one["in"] == "query"][:4] == ["state", "status", "name", "tag"]
    names = {one["name"] for one in document["paths"]["/v1/schedules/{name}"]["patch"]["parameters"]}
    assert names == {"name", "If-Match"}
