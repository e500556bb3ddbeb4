"""How requests travel, in the user's program and in the `rota` command.

It owns the profile, the rules of HTTP and retries, and the readers of streams; sending itself is in `_async/` and
`_sync/`. It must never send a token to another server than its own, or repeat a request that could do its work twice.
"""
