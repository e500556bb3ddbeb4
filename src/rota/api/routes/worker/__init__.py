"""The routes for agents, in a server node: the leader's address, control and log connections, objects of attempts.

They need a token with the scope `work`; objects also need the boot number of the agent. They must never answer a
tenant's own requests.
"""
