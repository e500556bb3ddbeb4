"""`rota simulate`: the core in virtual time, without a server or a database.

`trace` replays a recorded workload, `load` generates one; `swarm.py` has the commands that search for faults.
"""

from __future__ import annotations

import gc
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.output import Format, Output, note, say
from rota.cli.simulate.swarm import progress_on_terminal, prove, swarm
from rota.cli.tables.render import Column, add_command, add_group, facts, number, table

_Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same jobs and the same figures.")]


def add_to(app: typer.Typer) -> None:
    simulate = add_group(app, "simulate", "Run the scheduler in virtual time: traces, load, faults.")
    add_command(
        simulate,
        "trace",
        trace,
        "rota simulate trace lublin_256.swf --len 1024 --iter 10 --policy rota --policy fcfs-easy",
        "rota simulate trace openb_pods.csv --nodes openb_nodes.csv --fill 1.3 --policy rota --policy best-fit",
        "rota simulate trace lublin_256.swf --len 1024 --iter 1 --plot run.html",
    )
    add_command(
        simulate,
        "load",
        load,
        "rota simulate load --nodes 10000 --tenants 1000 --rate 2000 --hours 1",
        "rota simulate load --nodes 10000 --tenants 1000 --burst 100000",
        "rota simulate load --fairness",
    )
    simulate.command("swarm")(swarm)
    simulate.command("prove")(prove)


def trace(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Trace: a .swf file, or a CSV of openb tasks.")],
    nodes: Annotated[str | None, typer.Option(metavar="FILE", help="CSV with the machines of an openb trace.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="rota, fcfs, fcfs-easy, sjf-easy; repeat to compare."),
    ] = None,
    length: Annotated[
        int | None, typer.Option("--len", min=1, help="Jobs in a sampled sequence (1024 if only --iter is given).")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--iter", min=1, help="Number of sequences (10 if only --len is given).")
    ] = None,
    seed: _Seed = 1,
    scale: Annotated[str, typer.Option(metavar="N", help="Jobs arrive N times as fast.")] = "1",
    caps: Annotated[
        str, typer.Option(metavar="perfect|overestimated", help="Run times that the scheduler knows.")
    ] = "perfect",
    fill: Annotated[
        str | None,
        typer.Option(metavar="N", help="Fill the pool until N times its GPUs are requested; no job ends."),
    ] = None,
    estimates: Annotated[
        int, typer.Option(min=0, help="Jobs of a sequence whose start is estimated at submission (policy rota).")
    ] = 100,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Plot the first policy's first sequence: .html, .png.")
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Replay a recorded workload and report waits, slowdown, use, fairness and speed.

    Without --len and --iter the whole file is one sequence. --fill has policies of its own: rota, random, first-fit,
    best-fit.
    """
    from rota.simulate.traces import policies, replay, workload  # noqa: PLC0415 - slow

    known = policies.FILLING if fill is not None else policies.IN_TIME
    names = list(dict.fromkeys(policy or [policies.ROTA]))
    for name in names:
        checks.one_of("--policy", name, known)
    checks.one_of("--caps", caps, ("perfect", "overestimated"))
    if fill is not None and (plot is not None or length is not None or count is not None):
        raise checks.wrong("--fill", "a filled pool has no sequences and no time; leave out --len, --iter and --plot")
    if plot is not None and Path(plot).suffix not in (".html", ".png"):
        raise checks.wrong("--plot", f"{plot!r} is neither .html nor .png")
    if plot is not None and not Path(plot).parent.is_dir():  # checked before the work, not after
        raise checks.wrong("--plot", f"there is no folder {str(Path(plot).parent)!r}")
    options = replay.ReplayOptions(
        file=Path(file),
        nodes=None if nodes is None else Path(nodes),
        policies=tuple(names),
        length=length,
        count=count,
        seed=seed,
        scale=_above_zero("--scale", scale),
        overestimated=caps == "overestimated",
        fill=None if fill is None else _above_zero("--fill", fill),
        plot=None if plot is None else Path(plot),
        estimates=estimates,
    )
    try:
        report = replay.replay(options, _progress())
    except workload.BadTrace as error:
        raise checks.wrong("FILE", str(error)) from None
    _show_compared(report, output_format)


def load(
    nodes: Annotated[int, typer.Option(min=1, help="Machines in the pool.")] = 10_000,
    tenants: Annotated[int, typer.Option(min=1, help="Tenants that submit.")] = 1_000,
    rate: Annotated[str, typer.Option(metavar="N", help="Tasks per second, on average.")] = "2000",
    hours: Annotated[str, typer.Option(metavar="N", help="Simulated hours.")] = "1",
    busy: Annotated[str, typer.Option(metavar="SHARE", help="Average utilisation of the pool, up to 1.")] = "0.7",
    burst_ready: Annotated[
        int | None,
        typer.Option("--burst", metavar="N", min=1, help="Measure decisions per second with N tasks always ready."),
    ] = None,
    with_flood: Annotated[
        bool, typer.Option("--fairness", help="Measure fairness: one tenant floods, nine submit their share.")
    ] = False,
    flood: Annotated[int, typer.Option(min=1, help="Tasks in the flood of --fairness.")] = 100_000,
    seed: _Seed = 1,
    output_format: Output = Format.TABLE,
) -> None:
    """Generate load, and measure whether one leader's core keeps up."""
    from rota.simulate.traces import burst, fairness, load  # noqa: PLC0415 - slow

    if burst_ready is not None and with_flood:
        raise checks.wrong("--burst", "--burst and --fairness are two measurements; give one of them")
    speed, span, full = _above_zero("--rate", rate), _above_zero("--hours", hours), _above_zero("--busy", busy)
    if full > 1:
        raise checks.wrong("--busy", f"{busy!r} is more than the whole pool; write a share up to 1")
    # As on a server node: fewer garbage collections.
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    report: dict[str, object]
    progress = _progress()
    if burst_ready is not None:
        report = burst.bursts(nodes=nodes, tenants=tenants, ready=burst_ready, seed=seed, progress=progress)
    elif with_flood:
        report = fairness.fairness(flood=flood, minutes=10, share=0.95, seed=seed, progress=progress).as_dict()
    else:
        report = load.load(
            nodes=nodes, tenants=tenants, rate=speed, hours=span, busy=full, seed=seed, progress=progress
        ).as_dict()
    if output_format is Format.JSON:
        say(json.dumps(report))
    elif burst_ready is not None:
        _show_bursts(report)
    else:
        say(_as_facts(report))


def _show_bursts(report: dict[str, object]) -> None:
    """The two pools side by side, with the ratio of their costs per decision in the last column."""
    pools, dearer = report["pools"], report["cost_with_ten_times_the_nodes"]
    assert isinstance(pools, list)
    assert isinstance(dearer, dict)
    rows = [
        [
            name.replace("_", " "),
            *(_shown(pool[name]) for pool in pools),
            _shown(dearer[name]) if name in dearer else "",
        ]
        for name in pools[0]
        if name != "nodes"
    ]
    columns: list[Column | str] = ["nodes", *(Column(_shown(pool["nodes"]), align="right") for pool in pools)]
    say(table([*columns, "dearer by>"], rows, empty="nothing"))
    say(f"peak memory: {_shown(report['peak_memory_mib'])} MiB")


def _show_compared(report: dict[str, object], output_format: Format) -> None:
    if output_format is Format.JSON:
        say(json.dumps(report))
        return
    by_policy = report["policies"]
    assert isinstance(by_policy, dict)
    names = list(by_policy)
    rows: list[list[str]] = []
    for figure, first in by_policy[names[0]].items():
        if not isinstance(first, list):
            rows.append([figure.replace("_", " "), *(_shown(by_policy[name].get(figure)) for name in names)])
    columns = [Column(str(report["trace"])), *(Column(name, align="right") for name in names)]
    say(table(columns, rows, empty="nothing"))
    if report["left_out"]:
        say(f"left out: {_shown(report['left_out'])} that never ran, or ask for more than any machine has")
    ratios = report["ratios"]
    assert isinstance(ratios, dict)
    for pair, values in ratios.items():
        for figure, value in values.items():
            say(f"{figure.replace('_', ' ')}, {pair}: {_shown(value)}")


def _as_facts(report: dict[str, object]) -> str:
    return facts((name.replace("_", " "), _shown(value)) for name, value in report.items())


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(round(value, 3))
    return "–" if value is None else str(value)


def _above_zero(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise checks.wrong(option, f"{text!r} is not a number") from None
    if not (math.isfinite(value) and value > 0):
        raise checks.wrong(option, f"{text!r} is not above zero")
    return value


def _progress() -> Callable[[int, int], None] | None:
    if sys.stderr.isatty():
        note("the simulation runs; Ctrl-C stops it")
    return progress_on_terminal(lambda done, total: f"{100 * done // max(1, total):3d} %")
