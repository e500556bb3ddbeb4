"""Webhooks. The notifier runs in every server node; rows in the database decide which node sends a delivery.

Owns the way from the event log to a receiver: outbox rows, signed messages, retries, the check of target addresses.
Never sends to an address that it has not checked, and never keeps a delivery only in memory.
"""
