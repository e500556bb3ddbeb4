"""The async client, in the user's program. It owns the methods of `AsyncClient`, its handles and its parts.

This folder is written by hand, and `scripts/unasync` makes `_sync/` from it. It must never decide anything that a call
(`calls/`) could decide, or use a name whose blocking counterpart the script does not know.
"""
