"""The shell around the core, in the server process: it leads pools, loads ready tasks, authorises and delivers starts.

It owns the leader's memory of a pool and the agents' connections. It must never tell an agent or a client anything
before it is committed under the leader's epoch, nor take a decision that belongs to `decide`.
"""
