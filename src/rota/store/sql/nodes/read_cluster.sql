select identity::text, secret from cluster
