"""The statements Rota asks of its database, by subject: one method each, on the rows of `contents.py`."""
