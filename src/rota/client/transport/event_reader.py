"""Reads a stream of events: what each line means, and where to resume. Pure; the transports bring the lines.

A stream may break at any moment. `EventReader` remembers the last event id, and the next request asks for the events
after it: none is missed and none comes twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import msgspec

from rota.client.calls.call import Call, query_of
from rota.client.errors import ServerFault
from rota.client.options import EventFilter, check_names
from rota.model.answers.events import EventDocument


class EventReader:
    """Reads the events that a filter selects. `raw` is the JSON of the last event, as the server wrote it."""

    ended = False

    def __init__(
        self,
        *,
        types: Iterable[str] | None = None,
        after: str | None = None,
        since: str | None = None,
        follow: bool = True,
        **selected: Unpack[EventFilter],
    ) -> None:
        check_names(selected, EventFilter)
        self._query = query_of({"type": ",".join(types) if types is not None else None, **selected, "since": since})
        self.follow = follow
        self.last_id = after
        self.raw = b""
        self._id: str | None = None
        self._data: list[str] = []

    def next_call(self) -> Call[bytes]:
        self._id, self._data = None, []  # an event cut in half by a broken stream comes again
        query = {**self._query, "follow": "true" if self.follow else "false"}
        if self.last_id is not None:
            query["after"] = self.last_id
        headers = {"Accept": "text/event-stream"}
        return Call("GET", "/v1/events", bytes, query=query, headers=headers, repeatable=True)

    def take(self, line: str) -> EventDocument | None:
        """None until an event is whole."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return None
        if self._id is not None:
            self.last_id, self._id = self._id, None
        if not self._data:
            return None
        self.raw, self._data = "\n".join(self._data).encode(), []
        try:
            return msgspec.json.decode(self.raw, type=EventDocument)
        except msgspec.MsgspecError as error:
            raise ServerFault(f"an event cannot be read: {error}") from None
