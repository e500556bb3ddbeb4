"""Why a connected node takes nothing new. Its agent says the last two, an operator the first."""

from __future__ import annotations

import enum


class Closed(enum.StrEnum):
    DRAINING = "draining"  # an operator's word
    FULL = "full"  # its disk is below its reserve
    LEAVING = "leaving"  # its agent is about to go, or is there for the one task it has
