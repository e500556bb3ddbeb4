"""I28: webhooks are called at least once, with one id and a valid signature, after the commit, and only where allowed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from standardwebhooks import Webhook as Verifier

from rota.api.routes.events import event_of
from rota.model.attempt import Outcome
from rota.model.event import EventFilter, EventType
from rota.model.webhook import BACKOFF_SECONDS, DeliveryState, Webhook, pause_after, shown_key, signing_key
from rota.observe.notify import notifier as sending
from rota.observe.notify.notifier import Notifier
from rota.public_addresses import Resolve, resolve
from rota.settle.settlement import settle
from rota.store import webhooks
from rota.store.reading import NEWEST
from rota.store.webhooks import Delivery
from tests.observe.receiver import Receiver
from tests.store.rows import Rows

SECRET = "the cluster's own"
SALT = b"0123456789abcdef"
PATIENCE_SECONDS = 20.0


async def eventually(ask: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await ask():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(rows: Rows, *, private: bool = True, resolving: Resolve = resolve) -> AsyncIterator[Notifier]:
    own = Notifier(rows.database, secret=SECRET, private=private, describe=event_of, resolving=resolving)
    task = asyncio.create_task(own.run())
    try:
        yield own
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def hook(rows: Rows, url: str, **wanted: object) -> Webhook:
    save_request = EventFilter(**wanted)  # type: ignore[arg-type]
    return await webhooks.add_webhook(rows.connection, rows.tenant, url, save_request, salt=SALT, user="tester")


async def log_of(rows: Rows, webhook: Webhook) -> list[Delivery]:
    return await webhooks.list_deliveries(rows.connection, webhook.id, before=NEWEST, limit=100)


async def a_failure(rows: Rows) -> int:
    fence = await rows.lead()
    task = await rows.running(fence, name="etl")
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    return task


async def test_what_is_wanted_arrives_signed(rows: Rows, receiver: Receiver) -> None:
    made = await hook(rows, receiver.url, types=frozenset({EventType.DEAD_LETTERED}))
    task = await a_failure(rows)
    async with running(rows):
        await eventually(lambda: _states(rows, made, [DeliveryState.DELIVERED]))
    [got] = receiver.got
    verified = Verifier(shown_key(signing_key(SECRET, SALT))).verify(got.body, got.headers)
    assert verified["type"] == "dead-lettered"
    assert verified["data"]["task"] == task
    assert got.headers["content-type"] == "application/json"


async def test_a_notifier_that_is_woken_in_the_moment_it_is_stopped_stops(rows: Rows) -> None:
    notifier = Notifier(rows.database, secret=SECRET, private=True, describe=event_of)
    for _ in range(3):
        task = asyncio.create_task(notifier.run())
        await asyncio.wait({task}, timeout=0.4)  # it has looked, and waits
        notifier.poll_now()
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
        assert task in done


async def _states(rows: Rows, webhook: Webhook, states: list[DeliveryState]) -> bool:
    return [one.state for one in await log_of(rows, webhook)] == states


async def test_a_failing_receiver_is_tried_again_under_the_same_id(rows: Rows, receiver: Receiver) -> None:
    receiver.answers.extend([500, 503, 429, "http://127.0.0.1:1/", 404])
    made = await hook(rows, receiver.url, types=frozenset({EventType.FAILED}))
    await a_failure(rows)
    async with running(rows) as notifier:
        for tries in range(1, 6):

            async def tried(tries: int = tries) -> bool:
                found = await log_of(rows, made)
                return bool(found) and found[0].tries == tries and found[0].trouble is not None

            await eventually(tried)
            [one] = await log_of(rows, made)
            pause = (one.next_at - one.tried_at).total_seconds() if one.tried_at else 0
            assert BACKOFF_SECONDS[tries - 1] <= pause <= BACKOFF_SECONDS[tries - 1] * 1.1 + PATIENCE_SECONDS
            await rows.connection.execute(
                "update deliveries set next_at = now(), trouble = null where webhook = $1", made.id
            )
            notifier.poll_now()
        await eventually(lambda: _states(rows, made, [DeliveryState.DELIVERED]))
    assert len(receiver.got) == 6  # and nobody went where the redirect pointed
    assert len({got.headers["webhook-id"] for got in receiver.got}) == 1


async def test_two_notifiers_send_each_message_once(rows: Rows, receiver: Receiver) -> None:
    made = await hook(rows, receiver.url, types=frozenset({EventType.STARTED}))
    fence = await rows.lead()
    tasks = [await rows.task() for _ in range(20)]
    async with running(rows), running(rows):
        await rows.start(fence, *tasks)
        await eventually(lambda: _states(rows, made, [DeliveryState.DELIVERED] * 20))
    assert sorted(json.loads(got.body)["data"]["task"] for got in receiver.got) == tasks


async def test_a_claim_of_a_dead_node_lapses(rows: Rows, receiver: Receiver) -> None:
    made = await hook(rows, receiver.url, types=frozenset({EventType.FAILED}))
    await a_failure(rows)
    notifier = Notifier(rows.database, secret=SECRET, private=True, describe=event_of)
    await notifier.fill_outbox()
    claimed = await webhooks.claim_deliveries(rows.connection, limit=50, of_each=5, claim_seconds=0.2)
    assert made.id in {message.webhook for message in claimed}
    async with running(rows):
        await eventually(lambda: _states(rows, made, [DeliveryState.DELIVERED]))


async def test_gone_stops_a_webhook_and_resuming_tells_it_again(rows: Rows, receiver: Receiver) -> None:
    receiver.answers.append(410)
    made = await hook(rows, receiver.url, types=frozenset({EventType.FAILED}))
    await a_failure(rows)
    async with running(rows):

        async def stopped() -> bool:
            found = await webhooks.find_webhook(rows.connection, rows.tenant, made.id)
            return found is not None and found.stopped_reason is not None

        await eventually(stopped)
        await a_failure(rows)  # nobody is told of this one
        assert await webhooks.resume_webhook(rows.connection, rows.tenant, made.id)
        await a_failure(rows)
        await eventually(lambda: _states(rows, made, [DeliveryState.DELIVERED, DeliveryState.GIVEN_UP]))
    assert len(receiver.got) == 2


async def test_a_delivery_can_be_sent_again(rows: Rows, receiver: Receiver) -> None:
    made = await hook(rows, receiver.url, types=frozenset({EventType.FAILED}))
    await a_failure(rows)
    async with running(rows):
        await eventually(lambda: _states(rows, made, [DeliveryState.DELIVERED]))
        [one] = await log_of(rows, made)
        assert await webhooks.redeliver(rows.connection, made.id, one.id)

        async def came_twice() -> bool:
            return len(receiver.got) == 2

        await eventually(came_twice)
    assert receiver.got[0].headers["webhook-id"] == receiver.got[1].headers["webhook-id"]


async def test_a_name_that_turns_to_a_private_address_is_refused_at_delivery(rows: Rows, receiver: Receiver) -> None:
    async def rebound(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    made = await hook(rows, "http://innocent.example/hook", types=frozenset({EventType.FAILED}))
    await a_failure(rows)
    async with running(rows, private=False, resolving=rebound):

        async def refused() -> bool:
            return any("not a public address" in (one.trouble or "") for one in await log_of(rows, made))

        await eventually(refused)
    assert receiver.got == []
    await webhooks.remove_webhook(rows.connection, rows.tenant, made.id)


async def test_a_name_is_resolved_once_for_each_connection(rows: Rows, receiver: Receiver) -> None:
    """A resolver that answers with a public address first and with a private one a moment later has no effect."""
    asked: list[str] = []

    async def rebinding(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["198.18.0.1" if len(asked) > 1 else "127.0.0.1"]

    url = receiver.url.replace("127.0.0.1", "innocent.example")
    made = await hook(rows, url, types=frozenset({EventType.FAILED}))
    await a_failure(rows)
    async with running(rows, resolving=rebinding):

        async def came() -> bool:
            return len(receiver.got) == 1

        await eventually(came)
    assert asked == ["innocent.example"]
    await webhooks.remove_webhook(rows.connection, rows.tenant, made.id)


async def test_a_name_that_resolves_late_holds_up_nobody_else(
    rows: Rows, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TRY_SECONDS", 1.0)

    async def slow(host: str, port: int) -> list[str]:
        if host == "slow.example":
            await asyncio.Event().wait()
        return await resolve(host, port)

    late = await hook(rows, "http://slow.example/hook", types=frozenset({EventType.FAILED}))
    good = await hook(rows, receiver.url, types=frozenset({EventType.FAILED}))
    await a_failure(rows)
    async with running(rows, resolving=slow):

        async def both() -> bool:
            gave_up = any("no answer within 1 s" in (one.trouble or "") for one in await log_of(rows, late))
            return bool(receiver.got) and gave_up

        await eventually(both)
    for made in (late, good):
        await webhooks.remove_webhook(rows.connection, rows.tenant, made.id)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_tries_go_on_for_hours_and_end(chance: float) -> None:
    pauses = [pause_after(tries, chance=chance) for tries in range(1, len(BACKOFF_SECONDS) + 2)]
    assert pauses[-1] is None
    whole = [pause for pause in pauses[:-1] if pause is not None]
    assert whole == sorted(whole)
    assert 10 * 3600 < sum(whole) < 48 * 3600
