"""Calls over HTTP, blocking. Everything that is not sending is in `http_rules.py`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx

from rota.client.calls.artifact_calls import PIECE_BYTES, Receiving, Sending
from rota.client.calls.task_calls import Answer, Call
from rota.client.errors import Unreachable
from rota.client.transport.event_reader import EventReader
from rota.client.transport.http_rules import (
    QUIET_LOG_SECONDS,
    HttpOptions,
    Patience,
    accepted,
    broken_off,
    cut_short,
    request_for,
    unreachable,
    upload_request,
)
from rota.client.transport.log_reader import LogEnd, LogItem, LogReader
from rota.client.transport.profile import Profile
from rota.model.answers.artifacts import ArtifactDocument
from rota.model.answers.events import EventDocument


class _Pieces(httpx.SyncByteStream):
    def __init__(self, sending: Sending) -> None:
        self._sending = sending

    def __iter__(self) -> Iterator[bytes]:
        return self._sending.pieces()


class SyncTransport:
    def __init__(self, profile: Profile, retry_seconds: float) -> None:
        self._server = profile.server
        self._retry_seconds = retry_seconds
        options = HttpOptions.of(profile)
        self._http = httpx.Client(
            base_url=options.base_url,
            headers=options.headers,
            verify=options.verify,
            limits=options.limits,
            timeout=options.timeout,
        )

    def close(self) -> None:
        self._http.close()

    def perform(self, call: Call[Answer]) -> Answer:
        return call.read(self.exchange(call))

    def exchange(self, call: Call[Any]) -> bytes:
        """The body of a good answer, exactly as it came."""
        patience = Patience(self._retry_seconds)
        while True:
            try:
                response = self._http.send(request_for(self._http, call))
                return accepted(response, response.content)
            except httpx.TransportError as error:
                pause = patience.pause(call, unreachable(error, self._server))
            except Unreachable as error:
                pause = patience.pause(call, error)
            time.sleep(pause)

    def upload(self, sending: Sending) -> ArtifactDocument:
        patience = Patience(self._retry_seconds)
        while True:
            request = upload_request(self._http, sending)
            request.stream = _Pieces(sending)
            try:
                response = self._http.send(request)
                return sending.call.read(accepted(response, response.content))
            except httpx.TransportError as error:
                pause = patience.pause(sending.call, unreachable(error, self._server))
            except Unreachable as error:
                pause = patience.pause(sending.call, error)
            time.sleep(pause)

    def download(self, receiving: Receiving) -> None:
        """Until all is there, going on where an answer broke off."""
        patience = Patience(self._retry_seconds)
        while not receiving.complete:
            call = receiving.next_call()
            try:
                response = self._http.send(request_for(self._http, call, QUIET_LOG_SECONDS), stream=True)
                try:
                    if not response.is_success:
                        accepted(response, response.read())
                    for piece in response.iter_raw(PIECE_BYTES):
                        receiving.take(piece)
                finally:
                    response.close()
            except httpx.RemoteProtocolError:
                time.sleep(patience.pause(call, broken_off(self._server)))
            except httpx.TransportError as error:
                time.sleep(patience.pause(call, unreachable(error, self._server)))
            except Unreachable as error:
                time.sleep(patience.pause(call, error))
        receiving.finish()

    def follow(self, reader: LogReader) -> Iterator[LogItem]:
        """Chunks as they come; the last item is a LogEnd. A broken stream is taken up where it broke."""
        patience = Patience(self._retry_seconds)
        while True:
            call = reader.next_call()
            try:
                response = self._http.send(request_for(self._http, call, QUIET_LOG_SECONDS), stream=True)
                try:
                    if not response.is_success:
                        accepted(response, response.read())
                    for line in response.iter_lines():
                        patience = Patience(self._retry_seconds)
                        item = reader.take(line)
                        if item is not None:
                            yield item
                        if isinstance(item, LogEnd):
                            return
                except httpx.ReadTimeout:
                    patience = Patience(self._retry_seconds)  # it was answering: silence is no failure
                finally:
                    response.close()
                pause = patience.pause(call, cut_short(self._server))
            except httpx.TransportError as error:
                pause = patience.pause(call, unreachable(error, self._server))
            except Unreachable as error:
                pause = patience.pause(call, error)
            time.sleep(pause)

    def listen(self, reader: EventReader) -> Iterator[EventDocument]:
        """Events as they come. A broken stream is taken up after the last one that was whole."""
        patience = Patience(self._retry_seconds)
        while True:
            call = reader.next_call()
            try:
                response = self._http.send(request_for(self._http, call, QUIET_LOG_SECONDS), stream=True)
                try:
                    if not response.is_success:
                        accepted(response, response.read())
                    for line in response.iter_lines():
                        patience = Patience(self._retry_seconds)
                        event = reader.take(line)
                        if event is not None:
                            yield event
                    if not reader.follow:
                        return
                except httpx.ReadTimeout:
                    patience = Patience(self._retry_seconds)  # it was answering: silence is no failure
                finally:
                    response.close()
                pause = patience.pause(call, cut_short(self._server))
            except httpx.TransportError as error:
                pause = patience.pause(call, unreachable(error, self._server))
            except Unreachable as error:
                pause = patience.pause(call, error)
            time.sleep(pause)
