"""Signing in as values: what a password must be, how long a wrong one has to wait, codes of a second factor. Pure."""
