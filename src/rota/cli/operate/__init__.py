"""The commands that run Rota itself: `up`, `serve`, `worker`, `doctor`, `db`.

A command's own file reads and checks its options; `one_machine`, `server_node` and `worker_node` are the processes.
Command files must never import a process at the top: `rota --help` would load a server.
"""
