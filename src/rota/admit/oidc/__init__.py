"""Single sign-on with OpenID Connect: asking the provider (`provider.py`), judging its answers (`id_token.py`, pure),
who that is here (`people.py`), and asking again while sessions live (`refresh.py`). The pages are in `ui/sign_in/`.
"""
