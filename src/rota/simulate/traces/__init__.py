"""Recorded and synthetic workloads through the scheduling core, in the process of `rota simulate trace` or `load`.

It owns the readers of trace files, the driver, baseline policies and the figures. It must never use the core's books to
judge the core: the driver keeps its own.
"""
