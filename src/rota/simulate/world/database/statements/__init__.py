"""The statements of `rota.store` by subject, one method each, on the rows of `contents.py`.

They run in the process of `rota simulate swarm`. A method must give the same rows and make the same changes as its SQL
file, and reports each change to the auditor.
"""
