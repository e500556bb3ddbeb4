"""The commands that speak to a server, one file per command or noun; they run in the user's process.

Each file owns its commands' options and help, makes one call of `rota.client` and draws the answer with `tables/`.
It must never build an HTTP request or exit by itself, except to pass on a task's exit code.
"""
