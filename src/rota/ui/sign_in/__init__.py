"""Pages for signing in, and for what belongs to it: invitations, passwords, second factors."""
