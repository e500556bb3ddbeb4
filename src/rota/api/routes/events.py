"""Events: what happens to a tenant's tasks and schedules, as a stream of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams
from starlette.responses import StreamingResponse

from rota.api.documents import Document, instant
from rota.api.requests import check_query, truth_of, when_of
from rota.api.services import authorise
from rota.model.errors import Fault, Problem, invalid
from rota.model.event import OLDEST, Event, EventCursor, EventFilter, EventType
from rota.model.tenant import Scope
from rota.store.events import LONG_AGO

router = APIRouter(prefix="/v1/events", tags=["events"])

FILTERS = {"type", "task", "schedule", "name", "tag"}


@router.get("")
async def follow_events(request: Request) -> Response:
    """Server-sent events from now on, or after `Last-Event-ID` (or `after`), or `since` 10m or a time.

    Filters: `type` (several with commas), `task`, `schedule`, `name`, `tag` (name:value). With `follow=true`,
    or asked for as `text/event-stream`, it goes on; else it ends at the present. An event's id is its place: whoever
    comes back with the last one misses nothing and hears nothing twice.
    """
    services, caller = await authorise(request, Scope.READ)
    query = request.query_params
    check_query(query, FILTERS | {"after", "since", "follow"})
    wanted = filter_of(query)
    asks = "text/event-stream" in request.headers.get("accept", "")  # as every EventSource does
    forever = truth_of(query, "follow", default=asks)
    since = when_of(query, "since")
    after = _cursor(query.get("after") or request.headers.get("last-event-id"))
    services.events.check_room(caller.tenant_id)
    if after is None:
        after = await services.events.newest() if since is None and forever else OLDEST
    elif after != OLDEST:
        since = None  # who comes back asks with the same words: "since 1m" is later by now
    lines = _stream(services.events.follow(caller.tenant_id, after, wanted, since=since or LONG_AGO, forever=forever))
    return StreamingResponse(lines, media_type="text/event-stream", headers={"cache-control": "no-store"})


async def _stream(events: AsyncIterator[Event | EventCursor]) -> AsyncIterator[bytes]:
    """Trouble ends the stream: clients come back with their last id."""
    try:
        async for one in events:
            if isinstance(one, EventCursor):
                yield f"id: {one}\n\n".encode()  # moves a client's last id, and is no event
            else:
                data = msgspec.json.encode(event_document(one)).decode()
                yield f"id: {one.cursor}\nevent: {one.type}\ndata: {data}\n\n".encode()
    except Problem:
        return


def event_document(event: Event) -> Document:
    """What is not known of an event is left out."""
    document = {
        "id": str(event.cursor),
        "type": event.type.value,
        "at": instant(event.at),
        "task": event.task,
        "name": event.name,
        "attempt": event.attempt,
        "node": event.node,
        "state": event.state,
        "outcome": event.outcome,
        "limit": event.limit,
        "exit_code": event.exit_code,
        "reason": event.reason,
        "retry_after": event.retry_after,
        "stage": event.stage,
        "schedule": event.schedule,
        "scheduled_for": instant(event.scheduled_for),
        "until": instant(event.until),
        "tags": dict(event.tags) or None,
    }
    return {name: value for name, value in document.items() if value is not None}


def filter_of(query: QueryParams) -> EventFilter:
    task = query.get("task")
    if task is not None and (not task.isascii() or not task.isdigit() or len(task) > 18):
        raise invalid([Fault("/task", "invalid-filter", f"{task[:40]!r} is no task's id")])
    return EventFilter(
        types=types_of(query.get("type")),
        task=None if task is None else int(task),
        schedule=query.get("schedule"),
        name=query.get("name"),
        tag=_tag(query.get("tag")),
    )


def types_of(text: str | None) -> frozenset[EventType] | None:
    if text is None:
        return None
    unknown = [name for name in text.split(",") if name not in set(EventType)]
    if unknown:
        names = ", ".join(EventType)
        raise invalid([Fault("/type", "invalid-filter", f"{unknown[0][:40]!r} is no type of event; there are {names}")])
    return frozenset(EventType(name) for name in text.split(","))


def _tag(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    name, colon, value = text.partition(":")
    if not name or not colon:
        raise invalid([Fault("/tag", "invalid-filter", f"{text[:40]!r} is not name:value")])
    return name, value


def _cursor(text: str | None) -> EventCursor | None:
    if text is None:
        return None
    cursor = EventCursor.read(text)
    if cursor is None:
        raise Problem(
            "invalid-cursor", status=400, title="The cursor is not valid",
            detail=f"after {text[:40]!r}: use the id of an earlier event as it is, or leave it out",
        )  # fmt: skip
    return cursor
