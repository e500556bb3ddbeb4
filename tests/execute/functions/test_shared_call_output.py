"""Output of an async call that shares its process: both ends of each stream are kept, and what is between is known."""

from __future__ import annotations

from rota.execute.child.main_concurrent import MOST_HEAD_BYTES, MOST_TAIL_BYTES, RunningCall


def test_a_call_keeps_both_ends_of_its_streams() -> None:
    call = RunningCall(1)
    for number in range(100_000):
        call.say(1, b"%d\n" % number)
    call.say(2, b"the last error\n")
    out = [(offset, data) for stream, offset, data in call.output() if stream == 1]
    whole = b"".join(b"%d\n" % number for number in range(100_000))
    assert all(whole[offset : offset + len(data)] == data for offset, data in out)
    assert sum(len(data) for _, data in out) <= MOST_HEAD_BYTES + MOST_TAIL_BYTES
    assert out[0][0] == 0
    assert out[-1][0] + len(out[-1][1]) == len(whole)


def test_the_last_error_is_kept_although_the_other_stream_floods() -> None:
    call = RunningCall(1)
    for _ in range(100):
        call.say(1, b"x" * 65536)
    call.say(2, b"an error\n")
    for _ in range(100):
        call.say(1, b"x" * 65536)
    assert (2, 0, b"an error\n") in call.output()
