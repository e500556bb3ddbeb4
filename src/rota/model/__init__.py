"""The vocabulary of all processes: values, enumerations and pure functions on them.

Every process imports it: server nodes, agents, keepers, children, clients. It owns the meaning of names and numbers,
and the rules that need no facts. It never does I/O, reads no clock and imports no other part of rota.
"""
