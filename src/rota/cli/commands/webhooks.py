"""`rota webhook`: webhooks, their deliveries, and sending a message again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli.commands.events import event_source, event_types
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.tables.render import NOTHING, add_command, add_group, exact, table
from rota.client.calls import webhook_calls
from rota.model.answers.webhooks import DeliveryPage, WebhookDocument, WebhookList
from rota.model.event import EventType

_Id = Annotated[int, typer.Argument(metavar="WEBHOOK", min=1, help="Id of the webhook.")]


def add_to(app: typer.Typer) -> None:
    webhook = add_group(app, "webhook", "Manage webhooks: signed messages about events.")
    add_command(
        webhook,
        "add",
        add,
        "rota webhook add https://example.org/hook --events dead-lettered,late",
        "rota webhook add https://example.org/hook --task 7 --events done",
        "rota webhook add https://example.org/hook --schedule nightly",
    )
    add_command(webhook, "list", list_webhooks, "rota webhook list")
    add_command(webhook, "remove", remove, "rota webhook remove 3")
    add_command(webhook, "resume", resume, "rota webhook resume 3")
    add_command(webhook, "deliveries", deliveries, "rota webhook deliveries 3")
    add_command(webhook, "redeliver", redeliver, "rota webhook redeliver 3 41")


@takes("source", event_source)
def add(
    *,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address to which messages are posted: https://host/path.")],
    events: Annotated[
        str | None, typer.Option(metavar="TYPE,...", help=f"Only these: {', '.join(EventType)}. [default: all]")
    ] = None,
    source: dict[str, Any],
    output_format: Output = Format.TABLE,
) -> None:
    """Add a webhook for future events. Prints the secret that signs its messages, once."""
    call = webhook_calls.add_webhook(url, events=event_types("--events", events) or (), **source)
    show(call, output_format, lambda made: f"webhook {made.id}\nsecret {made.secret}  (not shown again)")


def list_webhooks(output_format: Output = Format.TABLE) -> None:
    """List your webhooks."""
    show(webhook_calls.webhooks(), output_format, _list)


def remove(webhook: _Id, output_format: Output = Format.TABLE) -> None:
    """Remove a webhook and its deliveries."""
    show(webhook_calls.remove_webhook(webhook), output_format, lambda _: f"webhook {webhook} is removed")


def resume(webhook: _Id, output_format: Output = Format.TABLE) -> None:
    """Resume a webhook that its receiver stopped by answering 410."""
    show(
        webhook_calls.resume_webhook(webhook), output_format, lambda one: f"webhook {one.id} is told again, from now on"
    )


def deliveries(
    webhook: _Id,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of entries.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """List the deliveries of a webhook, sent and pending, newest first."""
    show(webhook_calls.deliveries(webhook, limit=limit, cursor=cursor), output_format, _deliveries)


def redeliver(
    webhook: _Id,
    delivery: Annotated[int, typer.Argument(metavar="DELIVERY", min=1, help="Id of the delivery.")],
    output_format: Output = Format.TABLE,
) -> None:
    """Send a message again, with the same id."""
    show(webhook_calls.redeliver(webhook, delivery), output_format, lambda one: f"delivery {one.id} is sent again")


def _list(found: WebhookList) -> str:
    columns = ("ID>", "URL~", "EVENTS~", "OF", "STOPPED")
    rows = [
        (str(one.id), one.url, ",".join(one.events) or "all", _of(one), one.stopped or NOTHING)
        for one in found.webhooks
    ]
    return table(columns, rows, empty="no webhooks")


def _of(one: WebhookDocument) -> str:
    chosen = [f"task {one.task}"] if one.task is not None else []
    chosen += [f"schedule {one.schedule}"] if one.schedule is not None else []
    chosen += [f"name {one.name}"] if one.name is not None else []
    chosen += [f"{name}={value}" for name, value in one.tag.items()]
    return ", ".join(chosen) or "everything"


def _deliveries(page: DeliveryPage) -> str:
    columns = ("ID>", "TYPE", "STATE", "TRIES>", "STATUS>", "AT", "TROUBLE~")
    rows = [
        (
            str(one.id),
            one.type,
            one.state,
            str(one.tries),
            str(one.status or NOTHING),
            exact(one.tried_at),
            one.trouble or NOTHING,
        )
        for one in page.deliveries
    ]
    more = f"\nnext page: --cursor {page.next}" if page.next else ""
    return table(columns, rows, empty="nothing was sent yet") + more
