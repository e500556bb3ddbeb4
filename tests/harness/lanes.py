"""The ranks of the lanes that every database begins with: normal and periodic are served together."""

from __future__ import annotations

from rota.model.task import Lane

RANKS = {int(Lane.URGENT): 0, int(Lane.NORMAL): 2, int(Lane.PERIODIC): 2, int(Lane.OFF_PEAK): 5}
