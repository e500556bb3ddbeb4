"""Commands about accounts: users, service accounts, tokens, and `rota whoami`."""
