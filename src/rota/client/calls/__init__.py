"""Every request to the API as a value, for both clients and the `rota` command.

It owns the paths, parameters and bodies of requests; `model/answers/` has the structures of the answers. It must never
connect, sleep or read a clock: the clients send these values.
"""
