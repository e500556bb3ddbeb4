"""The `rota` command: one file per noun or verb group, drawn together in `main.py`.

Heavy libraries (HTTP, tables) are imported inside the commands that need them, so that the first prompt after
a typo or a `--help` comes at once.
"""
