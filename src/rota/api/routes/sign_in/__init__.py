"""Routes about signing in: sessions, passwords, second factors, and the rules for them."""
