"""SUBMIT: the Python SDK. `client.Client` and `async_client.AsyncClient` are two thin faces over `calls.py`.

Import names from `rota` itself (`from rota import Client, task`); this file stays empty so that the CLI and
the worker can import one small module from here without paying for HTTP.
"""
