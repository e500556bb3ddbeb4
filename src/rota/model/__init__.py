"""The vocabulary: frozen values every stage shares. Nothing here does I/O or looks at a clock."""
