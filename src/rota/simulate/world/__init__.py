"""A whole cluster with faults in one thread and in virtual time, in the process of `rota simulate swarm` or `prove`.

Production code runs unchanged: the core, the leader's loops, settlement, lease arithmetic, the agent's workbench. This
package owns the models of everything around it (database, time, links, processes), the nemesis that injects faults, and
the auditor, which must never share code with the product. `run.py` runs one seed.
"""
