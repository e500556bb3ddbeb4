"""Runs in the server process, in the leader of a pool.

It owns the verdict on an ended attempt (`verdict.py`, pure) and the batch that writes it with all consequences
(`settlement.py`). It must never write without the fence, nor let a late or repeated result change a task.
"""
