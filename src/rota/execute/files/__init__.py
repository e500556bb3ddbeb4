"""In the agent (`unpack.py` in a process of its own). Owns the files of an attempt: inputs before it starts, outputs
and checkpoints after. It never follows a link that a task made, and it knows no object store: server nodes do.
"""
