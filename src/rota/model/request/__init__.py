"""What a client may ask for. Used by clients and by admission, in their processes.

Owns the structures of requests and the rules that need no facts: a request that breaks one is wrong for every tenant.
Never depends on the tenant, the catalogue or the nodes: `rota.admit.judge` checks these.
"""
