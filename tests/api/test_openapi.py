"""The OpenAPI document says what the routes really take and answer."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute

from rota.api.app import ROUTERS
from rota.api.described import description_of
from rota.api.openapi import described_routes
from rota.api.permissions import permission_of
from tests.api.served import Served

ROUTES = [route for router in ROUTERS for route in router.routes]


def _public() -> Iterator[APIRoute]:
    return (route for route in ROUTES if isinstance(route, APIRoute) and route.include_in_schema)


@pytest.mark.parametrize("route", list(_public()), ids=lambda route: f"{sorted(route.methods)[0]} {route.path}")
def test_every_route_has_a_described_answer(route: APIRoute) -> None:
    description = description_of(route.endpoint)
    assert description is not None
    assert (description.answer is None) == (route.status_code == 204)


def test_a_route_without_a_description_is_a_mistake() -> None:
    async def forgotten() -> None: ...

    with pytest.raises(LookupError, match="forgotten"):
        list(described_routes([APIRoute("/v1/forgotten", forgotten)]))


def test_a_route_with_query_parameters_checks_the_query_against_them() -> None:
    for route in _public():
        description = description_of(route.endpoint)
        if description is not None and description.query:
            assert "read_query(request)" in inspect.getsource(route.endpoint), route.path


def test_the_document_has_query_parameters_and_headers(served: Served) -> None:
    document = served.send("GET", "/openapi.json").json()
    parameters = document["paths"]["/v1/tasks"]["get"]["parameters"]
    assert [one["name"] for one in parameters if one["in"] == "query"][:4] == ["state", "status", "name", "tag"]
    names = {one["name"] for one in document["paths"]["/v1/schedules/{name}"]["patch"]["parameters"]}
    assert names == {"name", "If-Match"}


def test_operations_and_structures_have_short_names(served: Served) -> None:
    document = served.send("GET", "/openapi.json").json()
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert {"submit_task", "get_task", "wait_for_tasks"} <= set(names)
    assert {"Task", "TaskPage", "Schedule", "Problem", "Event"} <= set(document["components"]["schemas"])


def test_every_operation_says_which_permission_it_needs(served: Served) -> None:
    paths = served.send("GET", "/openapi.json").json()["paths"]
    said = {
        operation["operationId"]: operation["x-rota-permission"]
        for methods in paths.values()
        for operation in methods.values()
    }
    assert said.keys() >= {"submit_task", "add_user"}
    assert {name: permission_of(name) for name in said} == said
    assert (said["submit_task"], said["get_whoami"], said["get_health"]) == ("tasks:submit", "signed-in", "anybody")


def test_every_answer_has_a_schema_and_every_reference_a_component(served: Served) -> None:
    document = served.send("GET", "/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                contents = response.get("content", {})
                assert bool(contents) == (status != "204"), (method, path, status)
                assert all(content["schema"] for content in contents.values()), (method, path, status)
    assert set(_references(document)) <= set(document["components"]["schemas"])


def test_an_answer_requires_each_field_that_the_server_always_sends(served: Served) -> None:
    schemas = served.send("GET", "/openapi.json").json()["components"]["schemas"]
    assert schemas["Submitted"]["required"] == ["id", "created"]
    assert "result" in schemas["Task"]["required"]
    assert "outputs" not in schemas["Task"]["required"]
    assert "default" not in schemas["Task"]["properties"]["result"]


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "$ref":
                yield str(value).removeprefix("#/components/schemas/")
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)
