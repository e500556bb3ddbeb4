"""Judges requests against facts. Runs in every server node, inside admission.

Owns the checks that depend on the tenant, its plan, the catalogue and the nodes (`Facts`), and the `Template` that they
yield. Pure: never reads the database or the clock. Checks that need no facts are in `rota.model.request`.
"""
