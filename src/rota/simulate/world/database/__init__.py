"""A model of PostgreSQL for the simulated cluster: rows in memory, and one method for each statement of `rota.store`.

It owns the rows (`contents.py`), the statements (`statements/`), and connections with their faults (`connection.py`).
It reports every durable change to the auditor, and must never run a statement that `rota.store` does not have.
"""
