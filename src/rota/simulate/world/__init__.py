"""The swarm's world: a whole cluster in one thread and in virtual time, with everything going wrong on purpose.

Production code runs here for real: the core, the leader's loops, settlement, lease arithmetic, the agent's workbench.
What lies outside of it is modelled: the database as the statements it is asked (`tables.py`), time, links, processes.
`auditor.py` watches from outside and shares no code with what it watches. `run.py` puts one seed's world together.
"""
