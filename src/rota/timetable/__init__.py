"""Runs in the server process; one server node at a time holds the ticker's lease.

It owns the instants of schedules and what becomes of each: one run or one recorded skip. It must never keep state
between batches, nor write an occurrence without the lock of its schedule.
"""
