"""In the agent. Reads what the node has: CPUs, memory, disk space, ports, device files and named mounts. It never
decides which attempt gets any of it: `attempts/` does.
"""
