"""Sends calls over HTTP and tries them again. What is not sending is in `http_rules.py` and `tries.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from rota.client.calls.artifact_calls import PIECE_BYTES, Download, Upload
from rota.client.calls.call import Answer, Call
from rota.client.calls.task_calls import LONGEST_WAIT_SECONDS
from rota.client.errors import Unreachable
from rota.client.transport import http_rules as rules
from rota.client.transport.awaiting import HttpClient, SocketTransport, UploadStream, in_thread, sleep
from rota.client.transport.profile import Profile
from rota.client.transport.tries import Preference, Tries
from rota.model.answers.artifacts import ArtifactDocument


class AsyncTransport:
    def __init__(self, profile: Profile, retry_seconds: float) -> None:
        self._preference = Preference(profile.servers)
        self._retry_seconds = retry_seconds
        has_several = len(profile.servers) > 1
        self.repeats = has_several or retry_seconds > 0
        self.longest_wait_seconds = rules.SHORT_WAIT_SECONDS if has_several else LONGEST_WAIT_SECONDS
        self.token_expires: str | None = None  # when, if a server said that it does so soon
        self._http = HttpClient(**rules.http_options(profile, SocketTransport))

    async def close(self) -> None:
        await self._http.aclose()

    async def perform(self, call: Call[Answer]) -> Answer:
        return call.read(await self.exchange(call))

    async def exchange(self, call: Call[Any]) -> bytes:
        """The body of a good answer, exactly as the server sent it."""
        return await self._sent(call, lambda tries: self._request(call, tries, rules.ANSWER))

    async def upload(self, upload: Upload) -> ArtifactDocument:
        def request(tries: Tries) -> httpx.Request:
            timeout = tries.timeout(upload.call, rules.TRANSFER)
            made = rules.upload_request(self._http, upload, tries.server, timeout)
            made.stream = UploadStream(upload)
            return made

        return upload.call.read(await self._sent(upload.call, request))

    async def download(self, download: Download) -> None:
        """Returns when all bytes have come; a broken answer is resumed where it ended."""
        tries = self._tries()
        while not download.complete:
            call = download.next_call()
            try:
                async with self._answer(call, tries, rules.TRANSFER) as response:
                    async for piece in response.aiter_raw(PIECE_BYTES):
                        await in_thread(download.take, piece)
                        tries.moved()
            except httpx.RemoteProtocolError:
                await sleep(tries.pause(call, rules.broken_off(tries.server)))
            except (httpx.TransportError, Unreachable) as error:
                await sleep(tries.pause(call, error))
        download.finish()

    async def stream(self, reader: rules.StreamReader[rules.Item]) -> AsyncIterator[rules.Item]:
        """The items of a log or an event stream as they come; a broken stream is resumed after the last whole item."""
        tries = self._tries()
        while True:
            call = reader.next_call()
            try:
                async with self._answer(call, tries, rules.STREAM) as response:
                    try:
                        async for line in response.aiter_lines():
                            tries.moved()
                            item = reader.take(line)
                            if item is not None:
                                yield item
                            if reader.ended:
                                return
                        if not reader.follow:
                            return
                    except httpx.ReadTimeout:
                        tries.moved()  # the server had answered: silence is no failure
                pause = tries.pause(call, rules.cut_short(tries.server))
            except (httpx.TransportError, Unreachable) as error:
                pause = tries.pause(call, error)
            await sleep(pause)

    async def _sent(self, call: Call[Any], request: Callable[[Tries], httpx.Request]) -> bytes:
        """Sends a new request for every try, until an answer has come."""
        tries = self._tries()
        while True:
            try:
                response = await self._http.send(request(tries))
                self._note_expiry(response)
                if response.status_code < 500:
                    tries.answered()
                return rules.accepted(response, response.content, call if tries.in_doubt else None)
            except (httpx.TransportError, Unreachable) as error:
                pause = tries.pause(call, error)
            await sleep(pause)

    @asynccontextmanager
    async def _answer(self, call: Call[Any], tries: Tries, patience: rules.Patience) -> AsyncIterator[httpx.Response]:
        """A good answer whose body is still to be read."""
        response = await self._http.send(self._request(call, tries, patience), stream=True)
        try:
            self._note_expiry(response)
            if not response.is_success:
                rules.accepted(response, await response.aread())
            tries.answered()
            yield response
        finally:
            await response.aclose()

    def _note_expiry(self, response: httpx.Response) -> None:
        self.token_expires = response.headers.get(rules.TOKEN_EXPIRES, self.token_expires)

    def _request(self, call: Call[Any], tries: Tries, patience: rules.Patience) -> httpx.Request:
        return rules.request_for(self._http, call, tries.server, tries.timeout(call, patience))

    def _tries(self) -> Tries:
        return Tries(self._preference, self._retry_seconds)
