"""SUBMIT: the Python SDK. It runs in the user's program and in the `rota` command, never in a server.

It owns the requests to the API (`calls/`), the two clients that send them (`_async/` and the generated `_sync/`), HTTP
(`transport/`), and `rota.yaml` (`manifest/`). It must never touch the database, or import HTTP before a program
connects: import names from `rota` (`from rota import Client, task`), not from here.
"""
