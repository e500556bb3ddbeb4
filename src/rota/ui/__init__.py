"""Pages for browsers: HTML made on the server, without scripts. Nothing here speaks SQL: the API's functions work.

`pages.py` has what all pages share, `routers.py` lists them.
"""
