"""The blocking client, in the user's program and in the `rota` command. It owns `Client`, its handles and its parts.

Every other module here is generated from `_async/` by `scripts/unasync`. It must never be edited, or import asyncio.
"""
