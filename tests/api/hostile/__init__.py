"""What attackers send: hostile names, doubled credentials, roles used beyond their reach, credentials that have ended."""
