"""The process of `rota serve`: one server node.

It owns the start and stop of every part (`node.py`), and the background loops: expiry, housekeeping, retention, and the
move of long output to the object store. It must never read HTTP requests, which is for `api/`, nor decide what runs.
"""
