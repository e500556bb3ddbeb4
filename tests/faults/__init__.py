"""Faults with real processes: kill, pause, cut them off, then let an offline checker judge."""
