"""Runs the product's own code in virtual time, in the process of a `rota simulate` command.

It owns recorded and synthetic workloads (`traces/`) and whole clusters with faults (`world/`). The product must never
import it, and it needs no server and no database.
"""
