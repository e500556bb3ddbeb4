"""Every answer of the HTTP API: servers build these structures, clients and agents read them, OpenAPI shows them.

Imported by every process but the keeper and the children. One module for each subject; the rules that all of them keep
are in `fields`. They only describe: no structure may connect, query or decide, and requests are in `model/request`.
"""
