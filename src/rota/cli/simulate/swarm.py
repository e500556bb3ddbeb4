"""`rota simulate swarm` and `rota simulate prove`: a whole cluster in virtual time with random faults.

`swarm` runs seeds and checks the invariants after every event; a failed seed prints the command that replays
it. `prove` applies known bugs one at a time and shows that each is found. `rota.simulate.world` runs the clusters.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.output import Format, Output, note, say
from rota.cli.tables.render import number, table

if TYPE_CHECKING:
    from rota.simulate.world.run import Outcome

_First = Annotated[int, typer.Option(min=0, help="First seed.")]
_Jobs = Annotated[int | None, typer.Option(min=1, help="Number of processes. [default: one per core]")]
_Bug = Annotated[str | None, typer.Option(metavar="NAME", help="Apply this known bug; `prove` lists them.")]


def swarm(
    seeds: Annotated[int, typer.Option(min=1, help="Number of simulated clusters.")] = 1_000,
    first: _First = 1,
    jobs: _Jobs = None,
    replay: Annotated[
        int | None, typer.Option(metavar="SEED", min=0, help="Run only this seed and print its events.")
    ] = None,
    bug: _Bug = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Run clusters with random faults in virtual time. Exit 1 if an invariant breaks, with the command that replays it.

    Examples: rota simulate swarm --seeds 1000; rota simulate swarm --replay 7 --bug no-self-fence
    """
    from rota.simulate.world import mutations, run  # noqa: PLC0415 - slow: the whole product in one process
    from rota.simulate.world import swarm as worlds  # noqa: PLC0415 - slow

    if bug is not None:
        checks.one_of("--bug", bug, mutations.NAMES)
    if replay is not None:
        _show_replay(run.run_seed(replay, bug=bug, keep_story=True), output_format)
        return
    began = time.monotonic()
    progress = progress_on_terminal(lambda done, total: f"{done} of {total} seeds")
    result = worlds.run_swarm(first=first, seeds=seeds, jobs=jobs or worlds.cores(), bug=bug, progress=progress)
    seconds = time.monotonic() - began
    never = result.never if seeds >= worlds.ENOUGH_FOR_SOMETIMES and not result.failed else []
    if output_format is Format.JSON:
        failed = [{"seed": o.seed, "invariant": o.invariant, "message": o.message} for o in result.failed]
        summary = {
            "seeds": result.seeds,
            "events": result.events,
            "seconds": round(seconds, 1),
            "run_twice": result.repeated,
            "failed": failed,
            "sometimes": result.sometimes,
            "never": never,
        }
        say(json.dumps(summary))
    else:
        rate = result.seeds / max(seconds, 0.001)
        say(
            f"{number(result.seeds)} seeds, {number(result.events)} events, {seconds:.1f} s, {rate:.1f} seeds/s; "
            f"{result.repeated} run twice and found the same"
        )
        rows = [[situation, number(count)] for situation, count in sorted(result.sometimes.items())]
        say(table(["sometimes", "in seeds>"], rows, empty="nothing happened"))
        for outcome in result.failed:
            say(f"seed {outcome.seed}: {outcome.invariant}: {outcome.message}")
            say(f"  {_command(outcome.seed, bug)}")
    for situation in never:
        note(f"this never happened, so it was not tested: {situation}")
    if result.failed or never:
        raise typer.Exit(1)


def prove(
    names: Annotated[list[str] | None, typer.Argument(metavar="[BUG...]", help="Bugs to apply. [default: all]")] = None,
    first: _First = 1,
    most_seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds within which a bug must be found.")] = 2_000,
    jobs: _Jobs = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Apply known bugs one at a time and show which invariant finds each. Exit 1 if one is not found."""
    from rota.simulate.world import mutations  # noqa: PLC0415 - slow
    from rota.simulate.world import swarm as worlds  # noqa: PLC0415 - slow

    for name in names or ():
        checks.one_of("BUG", name, mutations.NAMES)
    where = {mutation.name: mutation.where for mutation in mutations.MUTATIONS}
    proofs = []
    for proof in worlds.prove(
        names or mutations.NAMES, first=first, jobs=jobs or worlds.cores(), most_seeds=most_seeds
    ):
        proofs.append(proof)
        if sys.stderr.isatty():
            note(f"{proof.bug} is {f'found after {proof.seeds} seeds' if proof.seeds else 'not found'}")
    if output_format is Format.JSON:
        fields = ("bug", "seeds", "seed", "invariant", "message")
        say(json.dumps([{field: getattr(proof, field) for field in fields} for proof in proofs]))
    else:
        columns = ["bug", "where", "seeds>", "noticed by", "as"]
        rows = [
            [
                p.bug,
                where[p.bug],
                number(p.seeds) if p.seeds else f"over {most_seeds}",
                p.invariant or "nobody",
                p.message,
            ]
            for p in proofs
        ]
        say(table(columns, rows, empty="no bugs"))
    if any(not proof.seeds for proof in proofs):
        raise typer.Exit(1)


def _show_replay(outcome: Outcome, output_format: Format) -> None:
    if output_format is Format.JSON:
        fields = ("seed", "events", "fingerprint", "invariant", "message", "sometimes", "story")
        say(json.dumps({field: getattr(outcome, field) for field in fields}))
    else:
        say("\n".join(outcome.story))
    if outcome.invariant:
        raise typer.Exit(1)


def _command(seed: int, bug: str | None) -> str:
    return f"rota simulate swarm --replay {seed}" + (f" --bug {bug}" if bug else "")


def progress_on_terminal(text: Callable[[int, int], str]) -> Callable[[int, int], None] | None:
    """Writes the text for (done, total) to stderr whenever it changes; None if stderr is no terminal."""
    if not sys.stderr.isatty():
        return None
    last = ""

    def show(done: int, total: int) -> None:
        nonlocal last
        line = text(done, total)
        if line != last:
            last = line
            sys.stderr.write(f"\r{line}\r")
            sys.stderr.flush()

    return show
