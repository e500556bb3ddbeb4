"""What others learn of tasks: waiting clients, event streams, metrics, webhooks. Runs in every server node.

Owns the waiters and listeners of this node, the reading of graphs, and the notifier of webhooks (`notify/`).
Never changes a task: its only writes are late marks in the event log, and the outbox and cursors of webhooks.
"""
