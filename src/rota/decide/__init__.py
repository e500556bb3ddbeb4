"""The pure core, in the leader's process: which task starts next, and on which node.

It owns the leader's picture of its pool: nodes, ready tasks, grants and tenants' shares. It must never wait, log or
read a clock, and it imports only the model: time is an argument, so the simulator runs the same code.
"""
