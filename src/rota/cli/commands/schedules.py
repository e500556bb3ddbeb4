"""`rota schedule`: recurring tasks and graphs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from typer.core import TyperCommand

from rota.cli.commands import manifests
from rota.cli.commands.artifacts import planned, uploaded
from rota.cli.commands.manifests import ManifestFile, Variables
from rota.cli.shell import checks
from rota.cli.shell.connection import SUBMIT_RETRY_SECONDS, connect, show
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.shell.task_options import takes_schedule_options
from rota.cli.tables import schedule_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import schedule_calls
from rota.client.options import TaskSpec, request_of
from rota.model.answers.schedules import OccurrenceDocument
from rota.model.errors import FaultList
from rota.model.schedule.checks import check_name, faults_alone
from rota.model.schedule.request import ScheduleRequest
from rota.model.schedule.schedule import RuleKind

Text = str | None
_RULE = "When (one of them)"
_POLICY = "Policies"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]


class _WithHourly(TyperCommand):
    """Takes `--hourly` with or without a minute, which Typer does not support."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        bare = [
            place
            for place in range(end)
            if args[place] == "--hourly" and (place + 1 == end or args[place + 1].startswith("-"))
        ]
        return super().parse_args(ctx, ["--hourly=0" if place in bare else word for place, word in enumerate(args)])


def add_to(app: typer.Typer) -> None:
    group = add_group(app, "schedule", "Manage schedules: recurring tasks and graphs.", no_args_is_help=True)
    add_command(
        group,
        "add",
        add,
        "rota schedule add backup --daily 02:30 --tz Europe/Berlin -- backup.sh /srv",
        "rota schedule add report --cron '*/15 9-17 * * 1-5' --overlap skip --cap 10m -- ./report.py",
        "rota schedule add etl --every PT3H -f rota.yaml --dry-run",
        "rota schedule add -f rota.yaml   # with schedule: in it",
        "rota schedule add nightly --daily 02:30 --upload ./nightly.sh --bring conf.toml=./conf.toml",
        cls=_WithHourly,
    )
    add_command(group, "list", list_schedules, "rota schedule list")
    add_command(group, "show", show_schedule, "rota schedule show backup")
    add_command(group, "pause", pause, "rota schedule pause backup")
    add_command(group, "resume", resume, "rota schedule resume backup")
    add_command(
        group,
        "edit",
        edit,
        "rota schedule edit backup --daily 03:00",
        "rota schedule edit backup --next 2030-01-31T09:00",
        cls=_WithHourly,
    )
    add_command(group, "remove", remove, "rota schedule remove backup")
    add_command(group, "run-now", run_now, "rota schedule run-now backup")
    add_command(group, "skip-next", skip_next, "rota schedule skip-next backup")
    add_command(group, "next", next_runs, "rota schedule next backup -n 5")
    add_command(group, "history", history, "rota schedule history backup")
    add_command(group, "backfill", backfill, "rota schedule backfill backup --from 2030-01-01 --to 2030-02-01")


def _rule(
    at: Annotated[Text, typer.Option(metavar="TIME", rich_help_panel=_RULE, help="Once, at 2030-01-31T09:00Z.")] = None,
    hourly: Annotated[
        Text, typer.Option(metavar="[MINUTE]", rich_help_panel=_RULE, help="Every hour, at this minute or at :00.")
    ] = None,
    daily: Annotated[
        Text, typer.Option(metavar="HH:MM", rich_help_panel=_RULE, help="Every day, e.g. at 02:30.")
    ] = None,
    weekly: Annotated[
        Text, typer.Option(metavar="DAYS@HH:MM", rich_help_panel=_RULE, help="Every week: mon@08:00, mon,thu@08:00.")
    ] = None,
    monthly: Annotated[
        Text, typer.Option(metavar="DAY@HH:MM", rich_help_panel=_RULE, help="Every month: 1@00:00; 31 is the last day.")
    ] = None,
    annually: Annotated[
        Text, typer.Option(metavar="MM-DD@HH:MM", rich_help_panel=_RULE, help="Every year: 01-01@00:00.")
    ] = None,
    cron: Annotated[
        Text, typer.Option(metavar="EXPR", rich_help_panel=_RULE, help="Cron expression: '*/15 9-17 * * 1-5'.")
    ] = None,
    every: Annotated[
        Text, typer.Option(metavar="DURATION", rich_help_panel=_RULE, help="Elapsed time between runs: PT3H, 90s.")
    ] = None,
    zone: Annotated[
        Text,
        typer.Option(
            "--tz", metavar="ZONE", rich_help_panel=_RULE, help="Time zone, e.g. Europe/Berlin. [default: UTC]"
        ),
    ] = None,
    anchor: Annotated[
        Text, typer.Option(metavar="TIME", rich_help_panel=_RULE, help="Time from which --every counts.")
    ] = None,
    missed: Annotated[
        Text,
        typer.Option(
            "--missed", metavar="skip|once|all", rich_help_panel=_POLICY, help="What to do about missed runs."
        ),
    ] = None,
    missed_limit: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=_POLICY, help="Limit of --missed all.")
    ] = None,
    overlap: Annotated[
        Text,
        typer.Option(
            "--overlap",
            metavar="allow|skip|queue|replace",
            rich_help_panel=_POLICY,
            help="What to do if the last run has not ended.",
        ),
    ] = None,
    jitter: Annotated[
        Text, typer.Option(metavar="DURATION", rich_help_panel=_POLICY, help="Spread starts over this long.")
    ] = None,
    at_most: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=_POLICY, help="Tasks of the schedule that run at once.")
    ] = None,
    ends_at: Annotated[
        Text, typer.Option(metavar="TIME", rich_help_panel=_POLICY, help="No runs after this time.")
    ] = None,
    max_runs: Annotated[int | None, typer.Option(min=1, rich_help_panel=_POLICY, help="Total number of runs.")] = None,
) -> dict[str, Any]:
    """The given options. Rules have the names of `RuleKind`."""
    return checks.given(**locals())


@takes_schedule_options
@takes("rule", _rule)
def add(
    *,
    schedule: Annotated[
        Text, typer.Argument(metavar="NAME", help="Name of the schedule, unless a manifest names it.")
    ] = None,
    spec: TaskSpec,
    rule: dict[str, Any],
    paused: Annotated[bool, typer.Option("--paused", rich_help_panel=_POLICY, help="Add the schedule paused.")] = False,
    file: ManifestFile = None,
    variables: Variables = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Add nothing; show the next runs and what each runs. Exit 4 if refused.")
    ] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Add a schedule for a task or a manifest. Its files are uploaded and kept."""
    manifest = None if file is None else manifests.read(file, variables)
    said = _checked(
        rule | checks.given(paused=paused or None),
        needs_rule=manifest is None or manifest.schedule is None,
        name=schedule,
    )
    if manifest is not None:
        if manifest.schedule is None and schedule is None:
            raise checks.wrong("NAME", f"{file} names no schedule; give a NAME")
        if dry_run:
            manifests.preview_schedule(
                manifest, spec, name=schedule, said=said, only_new=True, output_format=output_format
            )
        else:
            manifests.add_schedule(manifest, spec, name=schedule, said=said, output_format=output_format)
        return
    manifests.without_file(variables)
    assert schedule is not None, "only a file may leave it out"
    if dry_run:
        ready, uploads = planned(spec)
        work = schedule_calls.Work([request_of(ready)])
        asked = schedule_calls.preview(schedule, said, work, uploads=uploads)
        manifests.show_schedule_preview(asked, None, only_new=True, output_format=output_format)
        return
    with connect(SUBMIT_RETRY_SECONDS) as client:
        work = schedule_calls.Work([request_of(uploaded(client, spec))])
    show(schedule_calls.add(schedule, said, work), output_format, schedule_tables.one)


@takes("rule", _rule)
def edit(
    schedule: Name,
    rule: dict[str, Any],
    next_at: Annotated[Text, typer.Option("--next", metavar="TIME", help="Move the next run to this time.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Change only if this is still its version.")] = None,
    file: ManifestFile = None,
    variables: Variables = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Change a schedule. Options that are not given keep their values; a manifest (-f) replaces task and rule."""
    said = _checked(rule | checks.given(next_at=next_at), needs_rule=False)
    if file is not None:
        manifests.edit_schedule(
            manifests.read(file, variables), schedule, version, said=said, output_format=output_format
        )
        return
    manifests.without_file(variables)
    if not said:
        raise checks.unusable("name at least one thing to change, such as --daily 03:00, --overlap skip or --next TIME")
    if version is None:
        with connect() as client:
            version = client.schedules.get(schedule).version
    show(schedule_calls.edit(schedule, version, said), output_format, schedule_tables.one)


def list_schedules(
    after: Annotated[Text, typer.Option(metavar="NAME", help="Only schedules after this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of entries.")] = 100,
    output_format: Output = Format.TABLE,
) -> None:
    """List your schedules by name."""
    show(schedule_calls.schedules(limit=limit, after=after), output_format, schedule_tables.page)


def show_schedule(schedule: Name, output_format: Output = Format.TABLE) -> None:
    """Show all details of a schedule."""
    show(schedule_calls.schedule(schedule), output_format, schedule_tables.one)


def pause(schedule: Name, output_format: Output = Format.TABLE) -> None:
    """Pause a schedule. Runs that fall into the pause are skipped."""
    show(schedule_calls.pause(schedule), output_format, lambda one: f"{one.name} is paused")


def resume(schedule: Name, output_format: Output = Format.TABLE) -> None:
    """Resume a schedule, with the next run from now."""
    show(schedule_calls.resume(schedule), output_format, schedule_tables.coming)


def remove(schedule: Name, output_format: Output = Format.TABLE) -> None:
    """Remove a schedule and its history. Its tasks continue."""
    show(schedule_calls.remove(schedule), output_format, lambda _: f"{schedule} is removed")


def run_now(schedule: Name, output_format: Output = Format.TABLE) -> None:
    """Run a schedule now, in addition to its times, and print the id of the task, or of the graph.

    So `rota wait $(rota schedule run-now report)` waits for the run.
    """

    def shown(one: OccurrenceDocument) -> str:
        if one.tasks is None:
            return f"skipped: {one.skipped}"
        return str(one.graph) if one.graph else "\n".join(map(str, one.tasks))

    show(schedule_calls.run_now(schedule), output_format, shown)


def skip_next(schedule: Name, output_format: Output = Format.TABLE) -> None:
    """Skip the next run of a schedule."""
    show(schedule_calls.skip_next(schedule), output_format, schedule_tables.coming)


def next_runs(
    schedule: Name,
    amount: Annotated[int, typer.Option("-n", min=1, max=1000, help="Number of entries.")] = 10,
    output_format: Output = Format.TABLE,
) -> None:
    """Show the next times of a schedule."""
    show(schedule_calls.next_runs(schedule, amount), output_format, schedule_tables.ahead)


def history(
    schedule: Name,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of entries.")] = 50,
    before: Annotated[Text, typer.Option(metavar="TIME", help="Only runs before this time.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """List the runs and skips of a schedule, newest first."""
    show(schedule_calls.history(schedule, limit=limit, before=before), output_format, schedule_tables.history)


def backfill(
    schedule: Name,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="First time to include.")],
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="First time to exclude.")],
    output_format: Output = Format.TABLE,
) -> None:
    """Run a schedule for past times that had no run."""
    show(schedule_calls.backfill(schedule, start, end), output_format, schedule_tables.backfilled)


def _checked(said: dict[str, Any], *, needs_rule: bool, name: str | None = None) -> Any:
    """The given options, checked as far as possible without a server. Raises an error with all faults."""
    given = [f"--{kind}" for kind in RuleKind if kind in said]
    choices = ", ".join(f"--{kind}" for kind in RuleKind)
    faults: list[tuple[str, str]] = []
    if needs_rule and not given:
        faults.append(("", f"say when it runs: give one of {choices}"))
    if len(given) > 1:
        faults.append((given[0], f"give one of {choices}; {' and '.join(given)} are given"))
    rule = {} if given else {RuleKind.EVERY.value: "1d"}  # the manifest's or the schedule's own: it is right
    named = FaultList()
    if name is not None:
        check_name(name, named)
        faults += [("NAME", fault.detail) for fault in named.faults]
    plain = {field: value for field, value in said.items() if field != "next_at"}
    alone = faults_alone(msgspec.convert(plain | rule, ScheduleRequest))
    checks.all_right([*faults, *((_option(one.pointer), one.detail) for one in alone if one.pointer)])
    return said


def _option(pointer: str) -> str:
    name = pointer.removeprefix("/").replace("_", "-")
    return {"zone": "--tz", "next-at": "--next"}.get(name, f"--{name}")
