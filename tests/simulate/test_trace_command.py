"""`rota simulate trace` and `load` on the command line: JSON, pictures, and one sentence for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rota.cli.main import run
from rota.simulate.traces.burst import burst
from rota.simulate.traces.fairness import fairness
from rota.simulate.traces.load import load

TRACE = "; MaxProcs: 4\n" + "".join(
    f"{n} {n * 5} -1 {10 + n % 7} {1 + n % 4} -1 -1 -1 -1 -1 1 {n % 3} -1 -1 0 -1 -1 -1\n" for n in range(1, 60)
)
KEYS = set(
    [
        "average_bounded_slowdown",
        "gpu_allocated_share",
        "jain_index",
        "late_starts",
        "decisions_per_second",
        "longest_wait_seconds",
        "mean_wait_seconds",
        "median_wait_seconds",
        "p99_wait_seconds",
        "utilisation",
        "fragmentation",
        "peak_memory_mib",
        "utilisation_over_time",
    ]
)
MEASURED = {"decisions_per_second", "policy_cpu_seconds", "peak_memory_mib"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_text(TRACE)
    return path


def document(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert run(["simulate", *words, "-o", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_document_has_every_figure_and_is_the_same_twice(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = (document(capfd, "trace", str(trace), "--len", "20", "--iter", "2") for _ in range(2))
    assert first.keys() >= KEYS
    for name in first.keys() - MEASURED - {"policies"}:
        assert first[name] == second[name], name


def test_estimated_starts_are_compared_with_what_happened(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = (document(capfd, "trace", str(trace), "--caps", "overestimated") for _ in range(2))
    names = [name for name in first if name.startswith(("estimate", "waited"))]
    assert [first[name] for name in names] == [second[name] for name in names]
    assert (first["estimates_asked"], first["estimates_told_share"]) == (59, 1.0)
    assert first["waited_asked"] > 10  # type: ignore[operator]
    assert first["waited_error_median"] <= first["waited_error_p90"]  # type: ignore[operator]
    few = document(capfd, "trace", str(trace), "--estimates", "10")
    assert few["estimates_asked"] <= 12  # type: ignore[operator]
    assert few["waited_error_median"] <= few["waited_error_p90"]  # type: ignore[operator]
    assert "estimates_asked" not in document(capfd, "trace", str(trace), "--estimates", "0")


def test_with_right_caps_and_nothing_that_overtakes_every_estimate_is_right(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Jobs of one user, each longer than the one before it, so that none is overtaken."""
    file = tmp_path / "rising.swf"
    rest = "-1 -1 -1 -1 -1 1 1 -1 -1 0 -1 -1 -1"
    file.write_text("; MaxProcs: 2\n" + "".join(f"{n} {n} -1 {10 * n} 1 {rest}\n" for n in range(1, 40)))
    found = document(capfd, "trace", str(file))
    assert found["waited_asked"] == 37
    assert (found["estimate_error_p90"], found["waited_error_p90"], found["waited_bias_median"]) == (0, 0, 0)


def test_several_policies_are_compared_in_one_run(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = document(capfd, "trace", str(trace), "--policy", "fcfs-easy", "--policy", "fcfs")
    assert list(found["policies"]) == ["fcfs-easy", "fcfs"]  # type: ignore[call-overload]
    assert found["policy"] == "fcfs-easy"
    assert found["ratios"]["fcfs-easy/fcfs"]["mean_wait_seconds"] <= 1  # type: ignore[index]


def test_the_default_output_is_a_table(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "trace", str(trace), "--policy", "fcfs", "--policy", "sjf-easy"]) == 0
    shown = capfd.readouterr().out
    assert "average bounded slowdown" in shown
    assert "fcfs/sjf-easy" in shown


def test_jobs_that_could_never_run_are_counted_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rest = "-1 -1 -1 -1 -1 -1 -1"
    file = tmp_path / "large.swf"
    file.write_text(f"; MaxProcs: 10\n1 0 0 5 100 0 0 100 5 0 1 {rest}\n2 0 0 5 1 0 0 1 5 0 1 {rest}\n")
    assert run(["simulate", "trace", str(file)]) == 0
    assert "left out: 1 that never ran, or ask for more than any machine has" in capfd.readouterr().out


@pytest.mark.parametrize("ending", [".html", ".png"])
def test_a_picture_is_written(trace: Path, tmp_path: Path, ending: str) -> None:
    if ending == ".png":
        pytest.importorskip("PIL")
    picture = tmp_path / f"out{ending}"
    assert run(["simulate", "trace", str(trace), "--policy", "fcfs", "--plot", str(picture)]) == 0
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG") if ending == ".png" else b"<svg" in data and b"job 1, tenant" in data


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["trace", "nowhere.swf"], "no such file"),
        (["trace", "TRACE", "--policy", "fcsf"], "did you mean fcfs?"),
        (["trace", "TRACE", "--policy", "best-fit"], "is not known"),
        (["trace", "TRACE", "--len", "-1"], "is too small; it is 1 or more"),
        (["trace", "TRACE", "--scale", "0"], "is not above zero"),
        (["trace", "TRACE", "--scale", "fast"], "is not a number"),
        (["trace", "TRACE", "--len", "60"], "too few"),
        (["trace", "TRACE", "--fill", "1.3"], "no machine has any"),
        (["trace", "TRACE", "--caps", "guessed"], "is not known"),
        (["trace", "TRACE", "--plot", "out.gif"], "neither .html nor .png"),
        (["trace", "TRACE", "--plot", "/nowhere/out.html"], "there is no folder '/nowhere'"),
        (["load", "--rate", "-5"], "is not above zero"),
        (["load", "--nodes", "0"], "is too small; it is 1 or more"),
        (["load", "--busy", "2"], "more than the whole pool"),
        (["load", "--burst", "5", "--fairness"], "give one of them"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_two(
    trace: Path, words: list[str], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", *(str(trace) if word == "TRACE" else word for word in words)]) == 2
    shown = capfd.readouterr()
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_load_starts_every_task_and_reports_the_possible_rate() -> None:
    found = load(nodes=50, tenants=20, rate=20, hours=0.02, busy=0.5, seed=1)
    assert found.tasks == found.started > 1000
    assert found.late_starts == 0
    assert 0.3 < found.utilisation < 0.6
    assert found.times_fifty_million_a_day == pytest.approx(found.decisions_per_second * 86_400 / 50_000_000)


def test_a_burst_fills_the_pool_and_then_takes_turns() -> None:
    found = burst(nodes=10, tenants=10, ready=500, seed=1)
    assert found.filling_decisions > 50
    assert found.turning_decisions > 1000
    assert found.decisions_per_second > found.with_arrivals_and_ends_per_second > 0


def test_a_burst_is_shown_as_two_pools_side_by_side(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "load", "--nodes", "20", "--tenants", "5", "--burst", "200"]) == 0
    head, *rows = capfd.readouterr().out.splitlines()
    assert head.split() == ["nodes", "2", "20", "dearer", "by"]
    (figures,) = [row.split()[-3:] for row in rows if row.startswith("decisions per second")]
    assert all(float(figure.replace(",", "")) > 0 for figure in figures)


def test_a_flood_of_one_tenant_is_hardly_noticed_by_nine_who_keep_to_their_share() -> None:
    found = fairness(flood=100_000, minutes=4, share=0.95, seed=1)
    assert found.steady_wait_ratio <= 1.2
    assert found.jain_index >= 0.95
