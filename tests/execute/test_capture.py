"""What is kept of an attempt's output: within the limit all of it, beyond it the beginning and the end of each stream."""

from __future__ import annotations

import random

import pytest

from rota.execute.logs.capture import LEAST_HEAD_BYTES, TAIL_BYTES, Capture, Unsent
from rota.execute.logs.pipes import Flow
from rota.model.attempt import TAIL_SEQ, LogChunk

MIB = 1024 * 1024


class Kept:
    """Chunks as a server keeps them."""

    def __init__(self) -> None:
        self.by_seq: dict[int, LogChunk] = {}
        self.most = 0

    def store(self, capture: Capture, chunks: list[Unsent]) -> None:
        for unsent in chunks:
            chunk = capture.chunk(unsent, unsent.data or b"")
            self.by_seq[chunk.seq] = chunk
            for gone in chunk.replaced:
                for seq in [
                    s for s, c in self.by_seq.items() if c.stream == gone.stream and gone.first <= s < gone.before
                ]:
                    del self.by_seq[seq]
        self.most = max(self.most, self.size)

    @property
    def size(self) -> int:
        return sum(len(chunk.data) for chunk in self.by_seq.values())

    def of(self, stream: int) -> list[LogChunk]:
        return [self.by_seq[seq] for seq in sorted(self.by_seq) if self.by_seq[seq].stream == stream]

    def last_bytes(self, stream: int) -> bytes:
        """The latest output without a gap."""
        data = b""
        begin: int | None = None
        for chunk in reversed(self.of(stream)):
            if begin is not None and chunk.offset + len(chunk.data) != begin:
                break
            data = chunk.data + data
            begin = chunk.offset
        return data


@pytest.mark.parametrize("seed", range(24))
def test_whatever_is_written_and_sent_the_kept_output_is_true_bounded_and_has_both_ends(seed: int) -> None:
    """Kept within the limit at every moment; every kept byte stands where it was written; nothing is cut needlessly."""
    chance = random.Random(seed)
    limit = chance.choice([0, 1, 100, 5_000, 64_000, 300_000, MIB])
    flow = Flow(2**60, lambda _: None)
    capture, kept = Capture(7, 1, limit), Kept()
    written = {1: bytearray(), 2: bytearray()}
    total = chance.choice([limit // 2, limit, limit * 3]) + 1
    while sum(map(len, written.values())) < total:
        stream = chance.choice([1, 1, 1, 1, 2])
        data = chance.randbytes(chance.choice([1, 10, 1000, 65536]))[: total - sum(map(len, written.values()))]
        written[stream] += data
        flow.add(capture, stream, data)
        if chance.random() < 0.3:
            kept.store(capture, capture.hand_out(chance.choice([0, 65536]) if capture.is_over else None))
    kept.store(capture, capture.hand_out())
    assert kept.most <= limit
    assert (kept.size, kept.size + capture.dropped_bytes) == (capture.kept_bytes, total)
    if total <= limit:
        assert capture.dropped_bytes == 0
    seen = sorted(kept.by_seq)
    assert [seq for seq in seen if seq < TAIL_SEQ] == list(range(sum(seq < TAIL_SEQ for seq in seen)))
    for stream in (1, 2):
        end = 0
        for chunk in kept.of(stream):
            assert chunk.offset >= end
            end = chunk.offset + len(chunk.data)
            assert chunk.data == written[stream][chunk.offset : end]
        if limit >= 5_000 and written[stream]:
            assert end == len(written[stream])  # its last bytes are there
            assert len(kept.last_bytes(stream)) >= min(len(written[stream]), limit // 8, TAIL_BYTES // 8)
            assert kept.of(stream)[0].offset == 0  # and its first
            assert len(kept.of(stream)[0].data) >= min(1, len(written[stream]))


def test_a_flood_on_one_stream_takes_neither_end_of_the_other() -> None:
    capture, kept = Capture(7, 1, MIB), Kept()
    flow = Flow(2**60, lambda _: None)
    for _ in range(100):
        flow.add(capture, 1, b"o" * 65536)
    flow.add(capture, 2, b"the first error\n")
    for _ in range(100):
        flow.add(capture, 1, b"o" * 65536)
        flow.add(capture, 2, b"e" * 65536)
    flow.add(capture, 2, b"the last error\n")
    for _ in range(100):
        flow.add(capture, 1, b"o" * 65536)
    kept.store(capture, capture.hand_out())
    errors = kept.of(2)
    assert errors[0].data.startswith(b"the first error\n")
    assert errors[-1].data.endswith(b"the last error\n")
    assert MIB * 0.95 < kept.size <= MIB


@pytest.mark.parametrize("limit", [5_000, 100_000, MIB, 8 * MIB])
def test_slow_output_after_a_flood_replaces_the_flood_little_by_little(limit: int) -> None:
    capture, kept = Capture(7, 1, limit), Kept()
    flow = Flow(2**60, lambda _: None)
    for _ in range(limit * 2 // 65536 + 1):
        flow.add(capture, 1, b"o" * 65536)
        kept.store(capture, capture.hand_out(0 if capture.is_over else None))
    while capture.unsent_bytes:
        kept.store(capture, capture.hand_out(65536))
    for number in range(50):
        flow.add(capture, 1, b"line %d\n" % number)
        kept.store(capture, capture.hand_out(65536))
        assert kept.size > 0.75 * limit
    assert kept.last_bytes(1).endswith(b"\nline 48\nline 49\n")


def test_a_large_limit_keeps_nearly_all_of_it_as_head() -> None:
    """So that long output can move to the object store while it is written."""
    capture = Capture(7, 1, 20 * MIB)
    for _ in range(30 * 16):
        capture.add(1, b"x" * 65536)
        capture.hand_out(0 if capture.is_over else None)
    head = sum(unsent.size for unsent in capture.hand_out())
    assert head <= TAIL_BYTES + LEAST_HEAD_BYTES
    assert capture.kept_bytes >= 18 * MIB


def test_the_tails_of_many_attempts_share_one_bound_of_memory() -> None:
    flow = Flow(2**60, lambda _: None)
    captures = [Capture(task, 1, MIB) for task in range(200)]
    for _ in range(40):
        for capture in captures:
            flow.add(capture, 1, b"x" * 65536)
            capture.hand_out(0 if capture.is_over else None)
    for capture in captures:
        flow.add(capture, 1, b"x")
    assert sum(capture.unsent_bytes for capture in captures) <= 20 * MIB
    assert all(capture.unsent_bytes >= 16 * 1024 for capture in captures)


def test_what_a_writer_left_out_itself_counts_as_left_out() -> None:
    capture = Capture(7, 1, MIB)
    capture.add(1, b"begin")
    capture.skip(1, 1000)
    capture.add(1, b"end")
    assert [(unsent.offset, unsent.data) for unsent in capture.hand_out()] == [(0, b"begin"), (1005, b"end")]
    assert (capture.kept_bytes, capture.dropped_bytes) == (8, 1000)
