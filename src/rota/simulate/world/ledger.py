"""The auditor's ledger of every task: states, versions, attempts, dependencies, idempotency keys, cancels.

It learns each change when the change becomes durable, and has its own copy of the rules in docs/promises.md.
`limits.py` has the limits.
"""

from __future__ import annotations

from rota.simulate.world.limits import Limits
from rota.simulate.world.sometimes import Sometimes
from rota.simulate.world.task_record import (
    BLOCKED,
    CANCELLED,
    DELAYED,
    DONE,
    EXPIRED,
    FAILED,
    NAMES,
    PAUSED,
    READY,
    RUNNING,
    SKIPPED,
    TaskRecord,
    Violation,
)

OK, LOST, BAD_RESULT = 1, 5, 9
COUNTED = (2, 3, 7, 8, 9, 12)  # error, timeout, refused, crashed, bad result, retry: these use up an attempt
MOST_LOSSES = 3
SKIP, RUN, ONLY_FAILED = 1, 2, 3  # the outcomes of its parents after which a dependent runs


def _wanted(upstream: int, end: int) -> bool:
    """Whether a dependent may run after its parent ended like this."""
    return {SKIP: end == DONE, RUN: True, ONLY_FAILED: end == FAILED}[upstream]


class Ledger(Limits):
    def __init__(self, sometimes: Sometimes, shapes: dict[int, tuple[int, int]]) -> None:
        super().__init__(sometimes, shapes)
        self.keys: dict[tuple[int, str], int] = {}
        self.answered: dict[tuple[int, str], int] = {}
        self.authorised: dict[tuple[int, int], int] = {}  # (task, attempt) → boot
        self.sent_to: dict[tuple[int, int], int] = {}  # (task, attempt) → node
        self.results: dict[tuple[int, int], str] = {}  # (task, attempt) → how its process ended
        self.quiet_lanes: set[int] = set()  # lanes that do not promote
        self.epochs: dict[int, int] = {}  # pool → epoch of the current lease
        self.written_epoch: dict[int, int] = {}  # pool → epoch of the newest write
        self.stood_still: dict[int, int] = {}  # task → its attempt that was frozen last
        self.dead_boots: set[int] = set()
        self.redrives: dict[int, int] = {}
        self.unfinished = 0
        self.changes = 0

    # ---- rows -------------------------------------------------------------------------------------------------------

    def admitted(self, task: int, record: TaskRecord, key: str | None) -> None:
        if task in self.tasks:
            raise Violation("I1", f"the id {task} was given out twice")
        self.tasks[task] = record
        tenant, state, parents = record.tenant, record.state, record.parents
        self.unfinished += 1
        if state not in (BLOCKED, DELAYED, READY):
            raise Violation("I4", f"task {task} begins {NAMES[state]}")
        if state != BLOCKED:
            self._check_parents(task, record)
        for parent in parents:
            if self.tasks[parent].tenant != tenant:
                raise Violation("I12", f"task {task} waits for {parent}, which is another tenant's")
        if key is not None:
            before = self.keys.setdefault((tenant, key), task)
            if before != task:
                raise Violation("I2", f"key {key} of tenant {tenant} became two tasks: {before} and {task}")

    def started(
        self, task: int, version: int, attempt: int, node: int, boot: int, pool: int, epoch: int, now_us: int
    ) -> None:
        record = self._change(task, RUNNING, version, (pool, epoch))
        if pool != record.pool:
            raise Violation("I7", f"task {task} starts in pool {pool}; it is one of pool {record.pool}")
        if attempt != record.attempt + 1:
            raise Violation("I5", f"task {task}: attempt {attempt} after {record.attempt}")
        if record.wake_us is not None and now_us < record.wake_us:
            raise Violation("I18", f"task {task} starts {record.wake_us - now_us} µs too early")
        if record.expires and record.attempt == 0 and now_us > record.start_by_us:
            raise Violation("I18", f"task {task} starts late; its owner wants it dropped then")
        if record.cancel_acknowledged:
            raise Violation("I21", f"task {task} starts after its cancel was acknowledged")
        if record.counted >= record.attempts or record.losses >= MOST_LOSSES:
            raise Violation("I19", f"task {task} starts after {record.counted} attempts and {record.losses} losses")
        self._check_parents(task, record)
        self._check_pauses(task, record, node, now_us)
        record.attempt, record.boot, record.wake_us = attempt, boot, None
        self.authorised[task, attempt] = boot
        self.sent_to[task, attempt] = node
        if boot not in self.dead_boots:
            self.active[task] = attempt
            self._check_caps(task, record)
        self._check_places(task, record, now_us)
        if self.stood_still.get(task) == attempt - 1:
            self._sometimes.hit("frozen before re-dispatch")
        self._check_fairness(task, record, now_us)
        self._check_waiting(task, record, now_us)

    def ended(
        self, task: int, number: int, state: int, outcome: int, fence: tuple[int, int] | None, reason: str
    ) -> None:
        record = self.tasks[task]
        was = record.state
        self._change(task, state, record.version + 1, fence)
        self.unfinished -= 1
        if number == 0:
            if was == RUNNING:
                raise Violation("I6", f"task {task} ended without an attempt while it was running")
            if state == SKIPPED and not self._culprit(record):
                raise Violation("I12", f"task {task} was skipped, and no task it waits for ended badly")
            return
        if was != RUNNING or number != record.attempt:
            raise Violation(
                "I11", f"task {task} ended by attempt {number}; it was {NAMES[was]}, {record.attempt} current"
            )
        self._count(task, record, outcome)
        if (state == DONE) != (outcome == OK):
            raise Violation("I11", f"task {task} is {NAMES[state]} by outcome {outcome}")
        if state == CANCELLED:
            self._sometimes.hit("cancel won over success")
            if not record.cancel_requested:
                raise Violation("I21", f"task {task} is cancelled without a request")
        explained = record.counted >= record.attempts or record.losses >= MOST_LOSSES or outcome == BAD_RESULT
        if state == FAILED and not explained:
            raise Violation("I19", f"task {task} failed after {record.counted} of {record.attempts} attempts: {reason}")

    def requeued(
        self,
        task: int,
        number: int,
        outcome: int,
        state: int,
        version: int,
        used: int,
        losses: int,
        wake_us: int | None,
        lane: int,
        now_us: int,
        fence: tuple[int, int] | None,
    ) -> None:
        record = self.tasks[task]
        if record.state != RUNNING or number != record.attempt:
            raise Violation("I11", f"task {task} goes back by attempt {number}; {record.attempt} is current")
        if (state == PAUSED) != record.pause_requested:
            raise Violation(
                "I21", f"task {task} is {NAMES[state]}; its owner wants it paused: {record.pause_requested}"
            )
        record.pause_requested = False
        record.held_state = READY if wake_us is None else DELAYED
        self._change(task, state, version, fence)
        self._count(task, record, outcome)
        if record.cancel_requested:
            raise Violation("I21", f"task {task} is queued again although its owner cancelled it")
        if (used, losses) != (record.counted, record.losses):
            raise Violation(
                "I19",
                f"task {task}: the row says {used} used and {losses} lost; {record.counted}, {record.losses} are true",
            )
        if used >= record.attempts or losses >= MOST_LOSSES or outcome == BAD_RESULT:
            raise Violation("I19", f"task {task} is retried after {used} of {record.attempts}, {losses} losses")
        if outcome in COUNTED:
            whole = min(record.backoff_ms * 2 ** min(used - 1, 30), record.backoff_limit_ms)
            waits = -1 if wake_us is None else wake_us - now_us
            if not 750 * whole - 1000 <= waits <= 1000 * whole + 1000:
                raise Violation("I19", f"task {task} backs off {waits} µs after try {used}; {whole} ms were due")
        elif wake_us is not None:
            raise Violation("I19", f"task {task} backs off after an end that it did not cause")
        self._check_rise(task, record, lane, wake_us)
        record.wake_us = wake_us

    def expired(self, task: int, now_us: int) -> None:
        """The task is about to be dropped because it is late."""
        record = self.tasks[task]
        if not record.expires or record.attempt or now_us <= record.start_by_us:
            early_us = record.start_by_us - now_us
            raise Violation("I18", f"task {task} is dropped {early_us} µs too early, after attempt {record.attempt}")
        self._sometimes.hit("a late task was dropped")

    def released(self, task: int, state: int, version: int, start_by_us: int, fence: tuple[int, int] | None) -> None:
        record = self.tasks[task]
        if record.state != BLOCKED or record.released:
            raise Violation("I12", f"task {task} is released again; it is {NAMES[record.state]}")
        self._change(task, state, version, fence)
        record.released = True
        record.start_by_us = start_by_us
        self._check_parents(task, record)

    def cancel_requested(self, task: int, version: int) -> None:
        self._edit(task, version, "a cancel", RUNNING).cancel_requested = True

    def paused(self, task: int, version: int) -> None:
        """A waiting task is paused."""
        record = self.tasks[task]
        record.held_state = record.state
        record.held_back = True
        self._change(task, PAUSED, version, None)
        self._sometimes.hit("a waiting task was paused")

    def pause_requested(self, task: int, version: int, *, paused: bool) -> None:
        """A running task is to be paused when its attempt ends, or no longer."""
        self._edit(task, version, "a pause", RUNNING).pause_requested = paused

    def resumed(self, task: int, state: int, version: int, start_by_us: int, now_us: int) -> None:
        record = self.tasks[task]
        right = record.held_state
        if right == DELAYED and record.wake_us is not None and record.wake_us <= now_us:
            right = READY
        if record.state != PAUSED or state != right:
            raise Violation(
                "I4", f"task {task}, {NAMES[record.state]}, goes on as {NAMES[state]}; {NAMES[right]} is right"
            )
        self._change(task, state, version, None)
        record.start_by_us = start_by_us
        self.watch_waiting(task, now_us)
        self._sometimes.hit("a paused task went on")

    def edited(self, task: int, version: int, pool: int, lane: int, start_by_us: int, tolerance_ms: int | None) -> None:
        """Its owner edited the waiting task."""
        record = self._edit(task, version, "an edit", BLOCKED, DELAYED, READY, PAUSED)
        if pool != record.pool:
            self.active.pop(task, None)  # an abandoned attempt may still hold resources, but in the old pool
            self._sometimes.hit("a waiting task moved to another pool")
        for where in [where for where, head in self._waiting_head.items() if head == task]:
            self._waiting_since.pop(where, None)  # its queue position changed, so it was not overtaken
        record.pool, record.lane = pool, lane
        record.start_by_us, record.tolerance_ms = start_by_us, tolerance_ms
        self._sometimes.hit("a waiting task was edited")

    def redriven(self, task: int) -> None:
        self.redrives[task] = self.redrives.get(task, 0) + 1
        if self.redrives[task] > 1 or self.tasks[task].state < DONE:
            raise Violation("I20", f"task {task} was run again {self.redrives[task]} times")

    # ---- clients ----------------------------------------------------------------------------------------------------

    def acknowledged(self, tenant: int, key: str | None, task: int) -> None:
        if task not in self.tasks:
            raise Violation("I1", f"task {task} was acknowledged, and is not stored")
        if key is not None:
            before = self.answered.setdefault((tenant, key), task)
            if before != task or self.keys.get((tenant, key)) != task:
                raise Violation("I2", f"key {key} of tenant {tenant} was answered with {before} and {task}")

    def cancel_acknowledged(self, task: int) -> None:
        record = self.tasks[task]
        record.cancel_acknowledged = True
        if record.state < DONE and not record.cancel_requested:
            raise Violation("I21", f"the cancel of task {task} was acknowledged, and it is {NAMES[record.state]}")

    def hold_acknowledged(self, task: int) -> None:
        """The task was held; it may have been released, or have ended, since."""
        record = self.tasks[task]
        if not record.held_back:
            raise Violation("I21", f"the hold of task {task} was acknowledged, and it is {NAMES[record.state]}")
        self._sometimes.hit("a waiting task was put on hold")

    # ---- attempts ---------------------------------------------------------------------------------------------------

    def attempt_over(self, task: int, attempt: int) -> None:
        if self.active.get(task) == attempt:
            del self.active[task]

    def boot_gone(self, boot: int) -> None:
        self.dead_boots.add(boot)
        for task, attempt in list(self.active.items()):
            if self.authorised[task, attempt] == boot:
                del self.active[task]

    # ---- the rules --------------------------------------------------------------------------------------------------

    def _change(self, task: int, state: int, version: int, fence: tuple[int, int] | None) -> TaskRecord:
        record = self.tasks[task]
        legal = {
            BLOCKED: (READY, DELAYED, PAUSED, SKIPPED, CANCELLED),
            DELAYED: (RUNNING, READY, PAUSED, CANCELLED, EXPIRED),
            READY: (RUNNING, DELAYED, PAUSED, CANCELLED, EXPIRED),
            RUNNING: (READY, DELAYED, PAUSED, DONE, FAILED, CANCELLED),
            PAUSED: (BLOCKED, DELAYED, READY, CANCELLED),
        }.get(record.state, ())
        if state not in legal:
            raise Violation("I4", f"task {task} goes from {NAMES[record.state]} to {NAMES[state]}")
        if version != record.version + 1:
            raise Violation("I4", f"task {task}: version {version} after {record.version}")
        if fence is not None and fence[1] != self.epochs.get(fence[0]):
            raise Violation("I7", f"task {task} was written in epoch {fence[1]} of pool {fence[0]}, which is over")
        if fence is None and state not in (CANCELLED, PAUSED, EXPIRED) and record.state != PAUSED:
            raise Violation("I7", f"task {task} became {NAMES[state]}, written without a lease")
        if fence is not None:
            self.written_epoch[fence[0]] = fence[1]
        record.state, record.version = state, version
        self.changes += 1
        return record

    def _edit(self, task: int, version: int, name: str, *states: int) -> TaskRecord:
        record = self.tasks[task]
        if record.state not in states or version != record.version + 1:
            found = f"{NAMES[record.state]}, {record.version}"
            raise Violation("I4", f"task {task}: {name} of version {version} on {found}")
        record.version = version
        return record

    def _count(self, task: int, record: TaskRecord, outcome: int) -> None:
        self.attempt_over(task, record.attempt)
        if outcome in COUNTED:
            record.counted += 1
        if outcome == LOST:
            record.losses += 1
        seen = self.results.get((task, record.attempt))
        if outcome == OK and seen != "ok":
            raise Violation("I11", f"task {task} is done by attempt {record.attempt}, which {seen or 'never ended'}")
        if outcome in (2, 3) and seen not in ("error", "timeout"):
            raise Violation("I11", f"attempt {record.attempt} of task {task} failed, says the row; it {seen or 'runs'}")

    def _check_parents(self, task: int, record: TaskRecord) -> None:
        for parent in record.parents:
            end = self.tasks[parent].state
            if end < DONE or not _wanted(record.upstream, end):
                raise Violation("I12", f"task {task} goes on while {parent}, which it waits for, is {NAMES[end]}")

    def _culprit(self, record: TaskRecord) -> bool:
        ends = [self.tasks[parent].state for parent in record.parents]
        return any(end >= DONE and not _wanted(record.upstream, end) for end in ends)

    def _check_rise(self, task: int, record: TaskRecord, lane: int, wake_us: int | None) -> None:
        """A retry that will be late rises a lane, if its lane promotes and the task has a tolerance."""
        late = record.tolerance_ms is not None and wake_us is not None and wake_us > record.start_by_us
        right = {0: 0, 1: 0, 2: 0, 3: 1}[record.lane] if late and record.lane not in self.quiet_lanes else record.lane
        if lane != right:
            raise Violation("I18", f"task {task} goes from lane {record.lane} to {lane} by a retry; {right} is right")
        if lane != record.lane:
            self._sometimes.hit("a late retry rose")
        record.lane = lane

    def check_promoted(self, task: int, version: int, lane: int, now_us: int) -> None:
        """A leader may promote a task only when it is urgent, and only if it has a tolerance.

        A copy that was read before an edit is ignored: it cannot start.
        """
        record = self.tasks[task]
        if lane != 0 or record.lane == 0 or version != record.version:
            return
        if record.tolerance_ms is None:
            raise Violation("I18", f"task {task} is promoted without a tolerance")
        early_us = record.start_by_us - 1000 * max(5000, record.tolerance_ms // 10) - now_us
        if early_us > 0:
            raise Violation("I18", f"task {task} is promoted {early_us} µs too early")
        self._sometimes.hit("a task became urgent")
