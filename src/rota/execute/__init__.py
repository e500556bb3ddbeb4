"""EXECUTE: the worker agent of one node and the two kinds of process it starts. It never speaks to the database.

Three processes run this code:

    agent     agent.py ── attempts/ (every attempt here) ─┬─ processes/ (commands, scripts, containers) ─┐
              connection.py ⇄ the pool's leader           └─ functions/ (calls of Python functions) ─────┤
              files/ in and out · logs/ out · machine/ (what the node has)                               │
                                                                                       keeper_link.py    │
    keeper    keeper/ starts, limits, reaps and kills every process tree  ◀── orders ────────────────────┘
              sandbox/ (arguments of bubblewrap and of engines), linux/ (control groups, mounts, /proc)
                │ spawns
    child     child/ runs functions in a warm process  ◀── calls, replies (messages/) ──▶ functions/child_link.py

The agent decides, the keeper obeys, a child runs one tenant's functions. If the agent dies, its keeper ends everything.
`make check` holds what each of the three may import.
"""
