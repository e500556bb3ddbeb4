"""Runs in the server process and in operators' commands; no agent imports it.

It owns all SQL (one statement a file in sql/, in a folder named as the module that runs it), the migrations, the
connections to PostgreSQL and to the object store, and the encryption of secrets. It must never decide anything about a
task: it reads and writes rows, inside transactions whose rules the callers know.
"""
