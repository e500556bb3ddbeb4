"""In the agent. Owns the output of attempts until a server node has stored it: in memory first, then on disk. It never
holds more than its budget and never delays a heartbeat.
"""
