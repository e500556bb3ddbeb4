"""Events of a tenant's tasks and schedules, as a stream of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams
from starlette.responses import StreamingResponse

from rota.api.described import EVENT_STREAM, TAG_TEXT, TEXT, TRUTH, WHEN, Media, Parameter, described, read_query
from rota.api.requests import digits, truth_of, when_of
from rota.api.services import authorise
from rota.model.answers.events import EventDocument
from rota.model.answers.fields import only
from rota.model.errors import Fault, Problem, invalid
from rota.model.event import OLDEST, Event, EventCursor, EventFilter, EventType
from rota.store.events import LONG_AGO

router = APIRouter(prefix="/v1/events", tags=["events"])


@router.get("")
@described(
    Media(EVENT_STREAM, of=EventDocument),
    query=(
        Parameter("type", TEXT, f"Of these types, with commas: {', '.join(EventType)}."),
        Parameter("task", TEXT, "Of the task with this id."),
        Parameter("schedule", TEXT, "Of the schedule with this name."),
        Parameter("name", TEXT, "Of tasks with this name."),
        Parameter("tag", TAG_TEXT, "Of tasks with this tag, as name:value."),
        Parameter("after", TEXT, "After the event with this id."),
        Parameter(
            "since", WHEN, "Since then, if there is no `after`: a duration before now, or a time with its offset."
        ),
        Parameter("follow", TRUTH, "Go on with events as they happen."),
    ),
)
async def follow_events(request: Request) -> Response:
    """Server-sent events from now on, after the id in `Last-Event-ID` or `after`, or `since` a time.

    With `follow=true` or `Accept: text/event-stream` the stream goes on; else it ends at the present. A client that
    reconnects with the id of its last event misses no event and receives none twice.
    """
    services, caller = await authorise(request)
    query = read_query(request)
    wanted = filter_of(query)
    asks = "text/event-stream" in request.headers.get("accept", "")  # as every EventSource does
    forever = truth_of(query, "follow", default=asks)
    since = when_of(query, "since")
    after = _cursor(query.get("after") or request.headers.get("last-event-id"))
    services.events.check_limit(caller.tenant_id)
    if after is None:
        after = await services.events.newest() if since is None and forever else OLDEST
    elif after != OLDEST:
        since = None  # a client reconnects with the same query: "since 1m" is later by now
    lines = _stream(services.events.follow(caller.tenant_id, after, wanted, since=since or LONG_AGO, forever=forever))
    if forever:
        lines = services.open_connections.while_valid(caller, lines)
    return StreamingResponse(lines, media_type=EVENT_STREAM, headers={"cache-control": "no-store"})


async def _stream(events: AsyncIterator[Event | EventCursor]) -> AsyncIterator[bytes]:
    """A problem ends the stream: clients reconnect with their last id."""
    try:
        async for one in events:
            if isinstance(one, EventCursor):
                yield f"id: {one}\n\n".encode()  # only moves the client's last id
            else:
                data = msgspec.json.encode(event_of(one)).decode()
                yield f"id: {one.cursor}\nevent: {one.type}\ndata: {data}\n\n".encode()
    except Problem:
        return


def event_of(event: Event) -> EventDocument:
    """Without the fields that the event does not have."""
    fields = {name: getattr(event, name) for name in EventDocument.__struct_fields__ if name != "id"}
    fields |= {"id": str(event.cursor), "tags": dict(event.tags) or None}
    return only(EventDocument, **{name: value for name, value in fields.items() if value is not None})


def filter_of(query: QueryParams) -> EventFilter:
    task = query.get("task")
    number = digits(task)
    if task is not None and number is None:
        raise invalid(
            [Fault("/task", "invalid-filter", f"task is the id of a task, a positive whole number, not {task[:40]!r}")]
        )
    return EventFilter(
        types=types_of(query.get("type")),
        task=number,
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
        raise invalid(
            [Fault("/type", "invalid-filter", f"{unknown[0][:40]!r} is not a type of event; there are {names}")]
        )
    return frozenset(EventType(name) for name in text.split(","))


def _tag(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    name, colon, value = text.partition(":")
    if not name or not colon:
        raise invalid([Fault("/tag", "invalid-filter", f"tag is NAME:VALUE, such as team:ml, not {text[:40]!r}")])
    return name, value


def _cursor(text: str | None) -> EventCursor | None:
    if text is None:
        return None
    cursor = EventCursor.read(text)
    if cursor is None:
        raise Problem(
            "invalid-cursor",
            status=400,
            title="The cursor is not valid",
            detail=f"after {text[:40]!r}: use the id of an earlier event as it is, or leave it out",
        )
    return cursor
