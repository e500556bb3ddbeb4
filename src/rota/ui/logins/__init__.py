"""Pages on which a signed-in user allows a program of theirs (`rota login`), or refuses it."""
