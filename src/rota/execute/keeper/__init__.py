"""In the keeper, a process of one thread beside the agent. Owns every process tree of the node: starts, limits, reaps
and kills it. It never imports anything outside the standard library, and it decides nothing about tasks.
"""
