"""Reading traces: each line becomes a job or is counted as left out, and an unreadable file gives one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.simulate.traces import openb, swf
from rota.simulate.traces.workload import BadTrace, compressed, overestimated, samples

HEADER = "; Version: 2\n; MaxNodes: 256\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,32000,1024,2,T4\nb,64000,2048,0,\n"
TASK_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def line(submit: int = 0, run: int = 100, processors: int = 4, asked: int = -1, user: int = -1) -> str:
    return f"1 {submit} -1 {run} {processors} -1 -1 {asked} -1 -1 1 {user} -1 -1 0 -1 -1 -1\n"


def test_a_job_line_becomes_a_job_with_a_perfect_cap_and_thirty_caps_of_tolerance() -> None:
    trace = swf.read(Path("t.swf"), HEADER + line(submit=10, run=100, processors=4, user=7))
    (job,) = trace.jobs
    assert trace.machines[0].capacity.cpu_milli == 256_000
    assert trace.shapes[job.shape].cpu_milli == 4_000
    assert (job.tenant, job.submit_us, job.run_us, job.cap_ms) == (7, 10_000_000, 100_000_000, 100_000)
    assert job.start_by_us == job.submit_us + 30 * job.run_us


def test_max_procs_counts_before_max_nodes() -> None:
    trace = swf.read(Path("t.swf"), "; MaxNodes: 8\n; MaxProcs: 64\n" + line())
    assert trace.machines[0].capacity.cpu_milli == 64_000


def test_jobs_without_a_run_or_too_wide_are_counted_as_left_out_and_requests_replace_unknown_widths() -> None:
    text = HEADER + line(run=-1) + line(processors=257) + line(processors=-1) + line(processors=-1, asked=3)
    trace = swf.read(Path("t.swf"), text)
    assert (len(trace.jobs), trace.left_out) == (1, 3)
    assert trace.shapes[trace.jobs[0].shape].cpu_milli == 3_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello\n", "neither MaxProcs nor MaxNodes"),
        (HEADER + "1 2 3\n", "line 3: 3 fields"),
        (HEADER + line().replace("100", "long"), "line 3: a field is not a number"),
        (HEADER + line().replace("100", "nan"), "line 3: a field is out of range"),
    ],
)
def test_another_format_is_refused_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(BadTrace, match=says):
        swf.read(Path("t.swf"), text)


def test_openb_tasks_ask_for_whole_devices_or_for_a_part_of_one() -> None:
    tasks = (
        TASK_HEADER
        + "p,1000,10,2,1000,,LS,Running,5,15,5\nq,500,10,1,460,,LS,Running,6,6,6\nr,500,10,0,0,,LS,Running,7,8,7\n"
    )
    trace = openb.read(Path("p.csv"), tasks, Path("n.csv"), NODES)
    asked = [(trace.shapes[job.shape].gpus, trace.shapes[job.shape].gpu_milli) for job in trace.jobs]
    assert asked == [(2, 0), (0, 460), (0, 0)]
    assert [job.run_us for job in trace.jobs] == [10_000_000, 0, 1_000_000]
    assert [machine.capacity.gpus for machine in trace.machines] == [2, 0]


def test_a_task_no_machine_could_hold_is_left_out() -> None:
    trace = openb.read(Path("p"), TASK_HEADER + "p,1000,10,4,1000,,LS,Running,5,15,5\n", Path("n"), NODES)
    assert (len(trace.jobs), trace.left_out) == (0, 1)


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        (TASK_HEADER + "p,x,10,4,1000,,LS,Running,5,15,5\n", "line 2: not whole numbers"),
        (TASK_HEADER + "p,-5,10,4,1000,,LS,Running,5,15,5\n", "line 2: a number below zero"),
        (TASK_HEADER + "p,5\n", "line 2: not whole numbers"),
    ],
)
def test_a_bad_openb_line_is_named(tasks: str, says: str) -> None:
    with pytest.raises(BadTrace, match=says):
        openb.read(Path("p.csv"), tasks, Path("n.csv"), NODES)


def test_samples_begin_where_the_seed_says_and_their_clocks_at_zero() -> None:
    trace = swf.read(Path("t.swf"), HEADER + "".join(line(submit=10 * n, run=n + 1) for n in range(50)))
    first, second = samples(trace, length=5, count=2, seed=1)
    assert [job.submit_us for job in first.jobs] == [n * 10_000_000 for n in range(5)]
    assert [job.id for job in second.jobs] == [1, 2, 3, 4, 5]
    assert first.jobs[0].run_us == (8 + 1) * 1_000_000  # random.Random(1).randint(0, 44) is 8
    with pytest.raises(BadTrace, match="too few for sequences of 50"):
        samples(trace, length=50, count=1, seed=1)


def test_scale_brings_arrivals_closer_and_overestimates_stay_between_two_and_ten() -> None:
    trace = swf.read(Path("t.swf"), HEADER + "".join(line(submit=10 * n) for n in range(50)))
    assert compressed(trace, 2).jobs[4].submit_us == 20_000_000
    caps = [job.cap_ms / 100_000 for job in overestimated(trace, 1).jobs]
    assert 2 <= min(caps) < max(caps) <= 10
    assert caps == [job.cap_ms / 100_000 for job in overestimated(trace, 1).jobs]
