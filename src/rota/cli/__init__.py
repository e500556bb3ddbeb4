"""The `rota` command, in the process of its user: `commands/` speak to a server, `operate/` runs Rota's own processes.

It owns options, messages, tables and exit codes; `app.py` has the table of commands. It must never decide what the
server decides, show a traceback, or pass a task's escape codes on to a terminal.
"""
