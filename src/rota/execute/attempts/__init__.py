"""In the agent. Owns every attempt on the node from its arrival to its result: which starts next, on which grant, and
what is reported. It never starts a process itself and never waits: the executors do, in `processes/` and `functions/`.
"""
