"""How `rota login` waits for its user: in a browser on this machine, or with a code that is typed on any other."""
