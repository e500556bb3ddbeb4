"""Runs in the server process.

It owns the membership of server nodes, the leases with their epochs, and the hints between nodes. It must never treat a
lease as safety (the fence in each batch is), nor rely on a hint.
"""
