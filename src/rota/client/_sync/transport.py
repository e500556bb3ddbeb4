# Generated from ../_async by scripts/unasync; edit that.
"""Sends calls over HTTP and retries them. Everything that is not sending is in `http_rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from rota.client.calls.artifact_calls import PIECE_BYTES, Download, Upload
from rota.client.calls.call import Answer, Call
from rota.client.errors import Unreachable
from rota.client.transport import http_rules as rules
from rota.client.transport.blocking import HttpClient, UploadStream, in_thread, sleep
from rota.client.transport.profile import Profile
from rota.model.answers.artifacts import ArtifactDocument


class Transport:
    def __init__(self, profile: Profile, retry_seconds: float) -> None:
        self._server = profile.server
        self._retry_seconds = retry_seconds
        self._http = HttpClient(**rules.http_options(profile))

    def close(self) -> None:
        self._http.close()

    def perform(self, call: Call[Answer]) -> Answer:
        return call.read(self.exchange(call))

    def exchange(self, call: Call[Any]) -> bytes:
        """The body of a good answer, exactly as the server sent it."""
        return self._sent(call, lambda: rules.request_for(self._http, call))

    def upload(self, upload: Upload) -> ArtifactDocument:
        def request() -> httpx.Request:
            made = rules.upload_request(self._http, upload)
            made.stream = UploadStream(upload)
            return made

        return upload.call.read(self._sent(upload.call, request))

    def download(self, download: Download) -> None:
        """Returns when all bytes have come; a broken answer is resumed where it ended."""
        retries = rules.Retries(self._retry_seconds)
        while not download.complete:
            call = download.next_call()
            try:
                with self._answer(call) as response:
                    for piece in response.iter_raw(PIECE_BYTES):
                        in_thread(download.take, piece)
            except httpx.RemoteProtocolError:
                sleep(retries.pause(call, rules.broken_off(self._server)))
            except (httpx.TransportError, Unreachable) as error:
                sleep(retries.pause(call, rules.unreachable(error, self._server)))
        download.finish()

    def stream(self, reader: rules.StreamReader[rules.Item]) -> Iterator[rules.Item]:
        """The items of a log or an event stream as they come; a broken stream is resumed after the last whole item."""
        retries = rules.Retries(self._retry_seconds)
        while True:
            call = reader.next_call()
            try:
                with self._answer(call) as response:
                    try:
                        for line in response.iter_lines():
                            retries = rules.Retries(self._retry_seconds)
                            item = reader.take(line)
                            if item is not None:
                                yield item
                            if reader.ended:
                                return
                        if not reader.follow:
                            return
                    except httpx.ReadTimeout:
                        retries = rules.Retries(self._retry_seconds)  # the server had answered: silence is no failure
                pause = retries.pause(call, rules.cut_short(self._server))
            except (httpx.TransportError, Unreachable) as error:
                pause = retries.pause(call, rules.unreachable(error, self._server))
            sleep(pause)

    def _sent(self, call: Call[Any], request: Callable[[], httpx.Request]) -> bytes:
        """Sends a new request for every try, until an answer has come."""
        retries = rules.Retries(self._retry_seconds)
        while True:
            try:
                response = self._http.send(request())
                return rules.accepted(response, response.content)
            except (httpx.TransportError, Unreachable) as error:
                pause = retries.pause(call, rules.unreachable(error, self._server))
            sleep(pause)

    @contextmanager
    def _answer(self, call: Call[Any]) -> Iterator[httpx.Response]:
        """A good answer whose body is still to be read."""
        response = self._http.send(rules.request_for(self._http, call, rules.QUIET_STREAM_SECONDS), stream=True)
        try:
            if not response.is_success:
                rules.accepted(response, response.read())
            yield response
        finally:
            response.close()
