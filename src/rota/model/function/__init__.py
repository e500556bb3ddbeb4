"""What a Python function takes and returns: its annotations as types, and whether a call's arguments fit it.

Clients and warm children share it, so that both give one verdict. Imported lazily: `inspect` and `typing` are slow to
load. Pure.
"""
