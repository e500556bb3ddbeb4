"""The auditor's own ledger of every task: states, versions, attempts, dependencies, keys, cancels. Limits: `limits.py`.

Told of each change at the moment it becomes durable. It knows the rules by heart, from RELIABILITY.md, and asks nobody.
"""

from __future__ import annotations

from rota.simulate.world.known import (
    BAD_RESULT,
    BLOCKED,
    CANCELLED,
    COUNTED,
    DELAYED,
    DONE,
    EXPIRED,
    FAILED,
    FAIR_AFTER_US,
    FAIR_STARTS_A_TENANT,
    LOST,
    MOST_LOSSES,
    NAMES,
    OK,
    ONLY_FAILED,
    PAUSED,
    READY,
    RUN,
    RUNNING,
    SKIP,
    SKIPPED,
    Known,
    Violation,
)
from rota.simulate.world.limits import Limits
from rota.simulate.world.sometimes import Sometimes


def _wanted(upstream: int, end: int) -> bool:
    """Whether the parent's end is one its child may go on after."""
    return {SKIP: end == DONE, RUN: True, ONLY_FAILED: end == FAILED}[upstream]


class Ledger(Limits):
    def __init__(self, sometimes: Sometimes, shapes: dict[int, tuple[int, int]]) -> None:
        super().__init__(sometimes, shapes)
        self.keys: dict[tuple[int, str], int] = {}
        self.answered: dict[tuple[int, str], int] = {}
        self.authorised: dict[tuple[int, int], int] = {}  # (task, attempt) → boot
        self.quiet_lanes: set[int] = set()  # these promote nobody
        self.epochs: dict[int, int] = {}  # pool → epoch of the lease as it is
        self.written_epoch: dict[int, int] = {}  # pool → epoch of the newest write
        self.self_killed: dict[int, int] = {}
        self.dead_boots: set[int] = set()
        self.redrives: dict[int, int] = {}
        self.unfinished = 0
        self.changes = 0
        self._waiting_since: dict[tuple[int, int], int] = {}  # (pool, tenant) that never started anything → since (µs)
        self._waiting_head: dict[tuple[int, int], int] = {}
        self._passed_by: dict[tuple[int, int], int] = {}
        self._began: set[tuple[int, int]] = set()

    # ---- rows -------------------------------------------------------------------------------------------------------

    def admitted(
        self, task: int, tenant: int, pool: int, state: int, parents: tuple[int, ...], upstream: int, key: str | None,
        attempts: int, backoff_ms: int, backoff_limit_ms: int, not_before_us: int | None, lock_key: str | None,
        key_limit: int, everywhere: bool, shape: int, lane: int, start_by_us: int, tolerance_ms: int | None,
        expires: bool,
    ) -> None:  # fmt: skip
        if task in self.tasks:
            raise Violation("I1", f"the id {task} was given out twice")
        known = self.tasks[task] = Known(
            tenant=tenant, pool=pool, state=state, parents=parents, upstream=upstream, attempts=attempts,
            backoff_ms=backoff_ms, backoff_limit_ms=backoff_limit_ms, not_before_us=not_before_us,
            wake_us=not_before_us, lock_key=lock_key, key_limit=key_limit, everywhere=everywhere,
            shape=shape, lane=lane, start_by_us=start_by_us, tolerance_ms=tolerance_ms,
            expires=expires,
        )  # fmt: skip
        self.unfinished += 1
        if state not in (BLOCKED, DELAYED, READY):
            raise Violation("I4", f"task {task} begins {NAMES[state]}")
        if state != BLOCKED:
            self._check_parents(task, known)
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
        known = self._change(task, RUNNING, version, (pool, epoch))
        if pool != known.pool:
            raise Violation("I7", f"task {task} starts in pool {pool}; it is one of pool {known.pool}")
        if attempt != known.attempt + 1:
            raise Violation("I5", f"task {task}: attempt {attempt} after {known.attempt}")
        if known.wake_us is not None and now_us < known.wake_us:
            raise Violation("I18", f"task {task} starts {known.wake_us - now_us} µs too early")
        if known.expires and known.attempt == 0 and now_us > known.start_by_us:
            raise Violation("I18", f"task {task} starts late; its owner wants it dropped then")
        if known.cancel_acknowledged:
            raise Violation("I21", f"task {task} starts after its cancel was acknowledged")
        if known.counted >= known.attempts or known.losses >= MOST_LOSSES:
            raise Violation("I19", f"task {task} starts after {known.counted} attempts and {known.losses} losses")
        self._check_parents(task, known)
        self._check_pauses(task, known, now_us)
        known.attempt, known.boot, known.wake_us = attempt, boot, None
        self.authorised[task, attempt] = boot
        if boot not in self.dead_boots:
            self.active[task] = attempt
            self._check_caps(task, known, now_us)
        self._check_places(task, known, now_us)
        if self.self_killed.get(task) == attempt - 1:
            self._sometimes.hit("self-kill before re-dispatch")
        self._check_fairness(task, known, now_us)

    def ended(
        self, task: int, number: int, state: int, outcome: int, fence: tuple[int, int] | None, reason: str
    ) -> None:
        known = self.tasks[task]
        was = known.state
        self._change(task, state, known.version + 1, fence)
        self.unfinished -= 1
        if number == 0:
            if was == RUNNING:
                raise Violation("I6", f"task {task} ended without an attempt while it was running")
            if state == SKIPPED and not self._culprit(known):
                raise Violation("I12", f"task {task} was skipped, and no task it waits for ended badly")
            return
        if was != RUNNING or number != known.attempt:
            raise Violation(
                "I11", f"task {task} ended by attempt {number}; it was {NAMES[was]}, {known.attempt} current"
            )
        self._count(task, known, outcome)
        if (state == DONE) != (outcome == OK):
            raise Violation("I11", f"task {task} is {NAMES[state]} by outcome {outcome}")
        if state == CANCELLED:
            self._sometimes.hit("cancel won over success")
            if not known.cancel_wished:
                raise Violation("I21", f"task {task} is cancelled, and nobody asked for it")
        explained = known.counted >= known.attempts or known.losses >= MOST_LOSSES or outcome == BAD_RESULT
        if state == FAILED and not explained:
            raise Violation("I19", f"task {task} failed after {known.counted} of {known.attempts} attempts: {reason}")

    def requeued(
        self, task: int, number: int, outcome: int, state: int, version: int, used: int, losses: int,
        wake_us: int | None, lane: int, now_us: int, fence: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        known = self.tasks[task]
        if known.state != RUNNING or number != known.attempt:
            raise Violation("I11", f"task {task} goes back by attempt {number}; {known.attempt} is current")
        if (state == PAUSED) != known.pause_wished:
            raise Violation("I21", f"task {task} is {NAMES[state]}; its owner wants it paused: {known.pause_wished}")
        known.pause_wished = False
        known.held_state = READY if wake_us is None else DELAYED
        self._change(task, state, version, fence)
        self._count(task, known, outcome)
        if known.cancel_wished:
            raise Violation("I21", f"task {task} is queued again although its owner cancelled it")
        if (used, losses) != (known.counted, known.losses):
            raise Violation(
                "I19",
                f"task {task}: the row says {used} used and {losses} lost; {known.counted}, {known.losses} are true",
            )
        if used >= known.attempts or losses >= MOST_LOSSES or outcome == BAD_RESULT:
            raise Violation("I19", f"task {task} is tried again after {used} of {known.attempts}, {losses} losses")
        if outcome in COUNTED:
            whole = min(known.backoff_ms * 2 ** min(used - 1, 30), known.backoff_limit_ms)
            waits = -1 if wake_us is None else wake_us - now_us
            if not 750 * whole - 1000 <= waits <= 1000 * whole + 1000:
                raise Violation("I19", f"task {task} backs off {waits} µs after try {used}; {whole} ms were due")
        elif wake_us is not None:
            raise Violation("I19", f"task {task} backs off after an end that was not its doing")
        self._check_rise(task, known, lane, wake_us)
        known.wake_us = wake_us

    def expired(self, task: int, now_us: int) -> None:
        """It is about to be dropped because its time has passed."""
        known = self.tasks[task]
        if not known.expires or known.attempt or now_us <= known.start_by_us:
            early_us = known.start_by_us - now_us
            raise Violation("I18", f"task {task} is dropped {early_us} µs too early, after attempt {known.attempt}")
        self._sometimes.hit("a late task was dropped")

    def released(self, task: int, state: int, version: int, start_by_us: int, fence: tuple[int, int] | None) -> None:
        known = self.tasks[task]
        if known.state != BLOCKED or known.released:
            raise Violation("I12", f"task {task} is released again; it is {NAMES[known.state]}")
        self._change(task, state, version, fence)
        known.released = True
        known.start_by_us = start_by_us
        self._check_parents(task, known)

    def cancel_wished(self, task: int, version: int) -> None:
        known = self.tasks[task]
        if known.state != RUNNING or version != known.version + 1:
            raise Violation(
                "I4", f"task {task}: a cancel of version {version} on {NAMES[known.state]}, {known.version}"
            )
        known.version = version
        known.cancel_wished = True

    def paused(self, task: int, version: int) -> None:
        """It waited, and is held back."""
        known = self.tasks[task]
        known.held_state = known.state
        known.held_back = True
        self._change(task, PAUSED, version, None)
        self._sometimes.hit("a waiting task was paused")

    def pause_wished(self, task: int, version: int, *, save_request: bool) -> None:
        """It runs, and is to be held back once it has ended; or not any more."""
        known = self.tasks[task]
        if known.state != RUNNING or version != known.version + 1:
            raise Violation("I4", f"task {task}: a pause of version {version} on {NAMES[known.state]}, {known.version}")
        known.version, known.pause_wished = version, save_request

    def resumed(self, task: int, state: int, version: int, start_by_us: int, now_us: int) -> None:
        known = self.tasks[task]
        right = known.held_state
        if right == DELAYED and known.wake_us is not None and known.wake_us <= now_us:
            right = READY
        if known.state != PAUSED or state != right:
            raise Violation(
                "I4", f"task {task}, {NAMES[known.state]}, goes on as {NAMES[state]}; {NAMES[right]} is right"
            )
        self._change(task, state, version, None)
        known.start_by_us = start_by_us
        self._sometimes.hit("a paused task went on")

    def edited(self, task: int, version: int, pool: int, lane: int, start_by_us: int, tolerance_ms: int | None) -> None:
        """Its owner changed it while it waited."""
        known = self.tasks[task]
        if known.state not in (BLOCKED, DELAYED, READY, PAUSED) or version != known.version + 1:
            raise Violation("I4", f"task {task}: an edit of version {version} on {NAMES[known.state]}, {known.version}")
        if pool != known.pool:
            self.active.pop(task, None)  # what an attempt given up may still hold, it holds in the pool it left
            self._sometimes.hit("a waiting task moved to another pool")
        for where in [where for where, head in self._waiting_head.items() if head == task]:
            self._waiting_since.pop(where, None)  # it stands elsewhere in line: nobody passes it by
        known.version, known.pool, known.lane = version, pool, lane
        known.start_by_us, known.tolerance_ms = start_by_us, tolerance_ms
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
        known = self.tasks[task]
        known.cancel_acknowledged = True
        if known.state < DONE and not known.cancel_wished:
            raise Violation("I21", f"the cancel of task {task} was acknowledged, and it is {NAMES[known.state]}")

    def hold_acknowledged(self, task: int) -> None:
        """It was held back; it may have been released, or have ended, since."""
        known = self.tasks[task]
        if not known.held_back:
            raise Violation("I21", f"the hold of task {task} was acknowledged, and it is {NAMES[known.state]}")
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

    def result_of(self, task: int, attempt: int) -> str | None:
        raise NotImplementedError

    def check_ends(self) -> None:
        for task, known in self.tasks.items():
            if known.state < DONE:
                raise Violation("I24", f"task {task} is still {NAMES[known.state]} after everything healed")

    # ---- the rules --------------------------------------------------------------------------------------------------

    def _change(self, task: int, state: int, version: int, fence: tuple[int, int] | None) -> Known:
        known = self.tasks[task]
        legal = {
            BLOCKED: (READY, DELAYED, PAUSED, SKIPPED, CANCELLED),
            DELAYED: (RUNNING, READY, PAUSED, CANCELLED, EXPIRED),
            READY: (RUNNING, DELAYED, PAUSED, CANCELLED, EXPIRED),
            RUNNING: (READY, DELAYED, PAUSED, DONE, FAILED, CANCELLED),
            PAUSED: (BLOCKED, DELAYED, READY, CANCELLED),
        }.get(known.state, ())
        if state not in legal:
            raise Violation("I4", f"task {task} goes from {NAMES[known.state]} to {NAMES[state]}")
        if version != known.version + 1:
            raise Violation("I4", f"task {task}: version {version} after {known.version}")
        if fence is not None and fence[1] != self.epochs.get(fence[0]):
            raise Violation("I7", f"task {task} was written in epoch {fence[1]} of pool {fence[0]}, which is over")
        if fence is None and state not in (CANCELLED, PAUSED, EXPIRED) and known.state != PAUSED:
            raise Violation("I7", f"task {task} became {NAMES[state]} by somebody who leads nothing")
        if fence is not None:
            self.written_epoch[fence[0]] = fence[1]
        known.state, known.version = state, version
        self.changes += 1
        return known

    def _count(self, task: int, known: Known, outcome: int) -> None:
        self.attempt_over(task, known.attempt)
        if outcome in COUNTED:
            known.counted += 1
        if outcome == LOST:
            known.losses += 1
        seen = self.result_of(task, known.attempt)
        if outcome == OK and seen != "ok":
            raise Violation("I11", f"task {task} is done by attempt {known.attempt}, which {seen or 'never ended'}")
        if outcome in (2, 3) and seen not in ("error", "timeout"):
            raise Violation("I11", f"attempt {known.attempt} of task {task} failed, says the row; it {seen or 'runs'}")

    def _check_parents(self, task: int, known: Known) -> None:
        for parent in known.parents:
            end = self.tasks[parent].state
            if end < DONE or not _wanted(known.upstream, end):
                raise Violation("I12", f"task {task} goes on while {parent}, which it waits for, is {NAMES[end]}")

    def _culprit(self, known: Known) -> bool:
        ends = [self.tasks[parent].state for parent in known.parents]
        return any(end >= DONE and not _wanted(known.upstream, end) for end in ends)

    def _check_rise(self, task: int, known: Known, lane: int, wake_us: int | None) -> None:
        """A retry that will be late goes up a level, where its lane promotes and somebody gave it a tolerance."""
        late = known.tolerance_ms is not None and wake_us is not None and wake_us > known.start_by_us
        right = {0: 0, 1: 0, 2: 0, 3: 1}[known.lane] if late and known.lane not in self.quiet_lanes else known.lane
        if lane != right:
            raise Violation("I18", f"task {task} goes from lane {known.lane} to {lane} by a retry; {right} is right")
        if lane != known.lane:
            self._sometimes.hit("a late retry rose")
        known.lane = lane

    def check_promoted(self, task: int, version: int, lane: int, now_us: int) -> None:
        """A leader takes a task for urgent: only when its time has come, and only if somebody gave it one.

        A copy that was read before an edit says what was true then; it can't start.
        """
        known = self.tasks[task]
        if lane != 0 or known.lane == 0 or version != known.version:
            return
        if known.tolerance_ms is None:
            raise Violation("I18", f"task {task} is promoted by a tolerance that nobody gave it")
        early_us = known.start_by_us - 1000 * max(5000, known.tolerance_ms // 10) - now_us
        if early_us > 0:
            raise Violation("I18", f"task {task} is promoted {early_us} µs too early")
        self._sometimes.hit("a task became urgent")

    # ---- fairness ---------------------------------------------------------------------------------------------------

    def watch_fairness_anew(self, pool: int, now_us: int) -> None:
        """A new leader reads everything again: nobody has been passed by yet."""
        for where in self._waiting_since:
            if where[0] == pool:
                self._waiting_since[where] = now_us
                self._passed_by[where] = 0

    def waits_for_its_first(self, task: int, now_us: int) -> None:
        """The first task of a tenant that has never started anything in the pool is ready."""
        known = self.tasks[task]
        where = (known.pool, known.tenant)
        plain = known.lock_key is None and ("tenant", known.tenant) not in self.limits
        if plain and where not in self._began and where not in self._waiting_since and known.state == READY:
            self._waiting_since[where] = now_us
            self._waiting_head[where] = task
            self._passed_by[where] = 0

    def _check_fairness(self, task: int, known: Known, now_us: int) -> None:
        """I26: others of the same kind, no more urgent, may go first for a round, not for ever."""
        own = (known.pool, known.tenant)
        self._began.add(own)
        self._waiting_since.pop(own, None)
        for where, since in self._waiting_since.items():
            head = self.tasks[self._waiting_head[where]]
            if where[0] != known.pool or head.state != READY or now_us - since < FAIR_AFTER_US:
                continue
            if ("tenant", where[1]) in self.ever_paused:
                continue
            if head.shape == known.shape and head.lane <= known.lane and known.attempt == 1:
                self._passed_by[where] += 1
                if self._passed_by[where] > FAIR_STARTS_A_TENANT * (1 + len(self._waiting_since)):
                    raise Violation(
                        "I26", f"task {self._waiting_head[where]}, tenant {where[1]}'s first, was passed by "
                        f"{self._passed_by[where]} times, now by task {task}",
                    )  # fmt: skip
