"""OPERATIONS. One change of all tasks that a filter selects, made by server nodes in batches.

See `runner` for the loop and `batch` for what each verb does to a batch.
"""
