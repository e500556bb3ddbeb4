"""Accounts as values: roles, scopes and rights. Pure; what each process does with them is in `admit/` and `api/`."""
