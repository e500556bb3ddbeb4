"""The keeper's side of its cradle: started when first needed, asked for one birth at a time, replaced when it dies.

A birth whose answer is lost may have happened: what is in the unit's group then is killed, and the unit refused.
Where the kernel can't do what the cradle needs, it is asked once and the keeper forks by itself from then on. Standard
library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

from rota.execute import cgroups, packets
from rota.execute.clone import NOT_HERE
from rota.execute.cradle import Order

_PROGRAM = "from rota.execute.cradle import main; main()"
_ANSWER_SECONDS = 5.0  # it is given at once; this is for a machine that thrashes


class CradleLink:
    def __init__(self) -> None:
        self.process = 0  # 0: there is none now
        self._channel: socket.socket | None = None
        self._is_of_use = True

    def bear(self, order: Order, descriptors: list[int]) -> int | None:
        """The newborn process, our own child. None: it must be forked in another way. OSError: it can't be born."""
        if not self._is_of_use:
            return None
        channel = self._channel or self._start()
        try:
            packets.send(channel, order.encode(), descriptors)
            answer = packets.receive(channel)
            if answer is None:
                raise OSError(0, "the process that starts sandboxes died")
        except OSError as error:
            self._give_up(order)
            raise OSError(error.errno, f"the process that starts sandboxes does not answer: {error}") from None
        number = int(answer[0])
        if number > 0:
            return number
        if -number in NOT_HERE:
            self._is_of_use = False
            self._close()
            return None
        raise OSError(-number, os.strerror(-number))

    def ended(self, process: int) -> None:
        """A child of the keeper was reaped; it may have been the cradle."""
        if process == self.process:
            self.process = 0
            self._close()

    def _start(self) -> socket.socket:
        ours, theirs = packets.pair()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            # No site packages, no settings: it needs this package and nothing else.
            package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
            argv = [sys.executable, "-s", "-S", "-c", _PROGRAM, str(theirs.fileno())]
            self.process = os.posix_spawn(sys.executable, argv, {"PYTHONPATH": package})
        ours.settimeout(_ANSWER_SECONDS)
        self._channel = ours
        return ours

    def _give_up(self, order: Order) -> None:
        if self.process:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):  # reaped already
                os.kill(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)  # first: it could bear what it was asked for until it is dead
            self.process = 0
        if order.unified:
            cgroups.kill(order.unified)
        self._close()

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
