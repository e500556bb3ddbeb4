"""Routes of users, service accounts, their roles and tokens. `managing.py` holds the rules that they share."""
