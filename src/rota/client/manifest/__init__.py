"""`rota.yaml` as requests, in the user's program and in the `rota` command; the server publishes only its JSON Schema.

It owns the syntax, the fields, the variables and the checks of a manifest, and reports all faults with line and column.
It must never connect, run anything, or read files outside the manifest's folder.
"""
