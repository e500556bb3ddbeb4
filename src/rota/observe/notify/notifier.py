"""The notifier: delivers events to webhooks. Every server node runs one; locks and claims on rows divide the work.

From the log to the outbox: one transaction locks a webhook's row, writes its messages and moves its cursor. From the
outbox to the receiver: a delivery is claimed for a minute, sent once, and its result recorded. If the node dies in
between, the claim expires and another node sends the message again with the same id: at least once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable

import httpx
import msgspec
import structlog

from rota import tls
from rota.model.errors import Problem
from rota.model.event import Event
from rota.model.webhook import DeliveryState, Message, pause_after, signed_headers, signing_key
from rota.observe.notify.targets import judge
from rota.public_addresses import ForbiddenTarget, Resolve, Unresolved, resolve
from rota.store import webhooks
from rota.store.database import Database
from rota.store.events import read_events
from rota.store.webhooks import Outgoing

log = structlog.get_logger()

POLL_SECONDS = 0.5
AT_ONCE = 50  # concurrent deliveries of a node
OF_EACH = 5  # of these, for one webhook
TRY_SECONDS = 15.0
CLAIM_SECONDS = 60.0
GONE = 410  # the receiver wants no more messages


class Notifier:
    def __init__(
        self,
        database: Database,
        *,
        secret: str,
        private: bool,
        describe: Callable[[Event], object],
        resolving: Resolve = resolve,
    ) -> None:
        self._database = database
        self._secret = secret
        self._private = private
        self._describe = describe
        self._resolving = resolving
        self._sending: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()

    def poll_now(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        async with httpx.AsyncClient(
            timeout=TRY_SECONDS,
            follow_redirects=False,
            trust_env=False,
            verify=tls.trusted(""),  # of the machine: a receiver is anywhere
            limits=httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=0),
        ) as http:
            try:
                while True:
                    try:
                        await self.fill_outbox()
                        await self._send_due(http)
                    except Problem as error:
                        log.debug("notifier.database_away", error=error.detail)
                    self._wake.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(POLL_SECONDS):
                            await self._wake.wait()
            finally:
                for task in self._sending:
                    task.cancel()
                await asyncio.gather(*self._sending, return_exceptions=True)

    async def fill_outbox(self) -> None:
        """Turns new events into messages in the outbox."""
        async with self._database.engine() as connection:
            numbers = await webhooks.webhooks_with_news(connection)
        for number in numbers:
            full = True
            while full:
                async with self._database.engine() as connection, connection.transaction():
                    webhook = await webhooks.lock_webhook(connection, number)
                    if webhook is None:
                        break
                    wanted = webhook.wanted
                    read = await read_events(
                        connection, webhook.tenant, webhook.cursor, task=wanted.task, types=wanted.types
                    )
                    messages = [self._outgoing(number, event) for event in read.events if wanted.wants(event)]
                    await webhooks.put_out(connection, webhook, messages, read.cursor)
                    full = read.full

    def _outgoing(self, webhook: int, event: Event) -> Outgoing:
        body = {"type": event.type.value, "timestamp": event.at, "data": self._describe(event)}
        return Outgoing(
            message=f"msg_{webhook}_{event.cursor}", type=event.type, body=msgspec.json.encode(body).decode()
        )

    async def _send_due(self, http: httpx.AsyncClient) -> None:
        free = AT_ONCE - len(self._sending)
        if free <= 0:
            return
        async with self._database.engine() as connection:
            claimed = await webhooks.claim_deliveries(
                connection, limit=free, of_each=OF_EACH, claim_seconds=CLAIM_SECONDS
            )
        for message in claimed:
            task = asyncio.create_task(self._deliver(http, message), name=f"delivery {message.delivery}")
            self._sending.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._wake.set()  # another delivery may be sent
        if not task.cancelled() and task.exception() is not None:
            log.error("notifier.delivery_failed", error=repr(task.exception()))  # the claim expires

    async def _deliver(self, http: httpx.AsyncClient, message: Message) -> None:
        status, trouble = await self._try(http, message)
        pause = None if trouble is None else pause_after(message.tries, chance=random.random())
        state = DeliveryState.GIVEN_UP if pause is None else DeliveryState.WAITING
        if trouble is None:
            state = DeliveryState.DELIVERED
        try:
            async with self._database.engine() as connection:
                await webhooks.record_try(
                    connection, message, state=state, status=status, trouble=trouble, again_in_seconds=pause or 0.0
                )
                if status == GONE:
                    await webhooks.stop_webhook(connection, message.webhook, "its receiver answered 410 Gone")
        except Problem as error:
            log.warning("notifier.not_recorded", delivery=message.delivery, error=error.detail)  # it is sent again

    async def _try(self, http: httpx.AsyncClient, message: Message) -> tuple[int | None, str | None]:
        """The status, and the reason of a failure or None. The body of the answer is not read."""
        try:
            async with asyncio.timeout(TRY_SECONDS):
                target = await judge(message.url, private=self._private, resolving=self._resolving)
                headers = {
                    "host": target.host_header,
                    "content-type": "application/json",
                    "user-agent": "rota-webhook",
                    **signed_headers(signing_key(self._secret, message.salt), message, int(time.time())),
                }
                async with http.stream(
                    "POST",
                    target.pinned_url,
                    content=message.body.encode(),
                    headers=headers,
                    extensions={"sni_hostname": target.host},
                ) as response:
                    status = response.status_code
        except (ForbiddenTarget, Unresolved) as error:
            return None, str(error)
        except TimeoutError:
            return None, f"no answer within {TRY_SECONDS:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return None, f"{type(error).__name__}: {error}"
        if 200 <= status < 300:
            return status, None
        if 300 <= status < 400:
            return status, f"answered {status}; redirects are not followed"
        return status, f"answered {status}"
