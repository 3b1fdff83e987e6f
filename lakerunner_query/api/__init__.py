"""HTTP: the only folder that knows Litestar.

Handlers translate parameters, call the engine and render what comes; nothing is decided here. `failures.py`
is the one place where an exception becomes a response, `auth.py` the one where a key becomes an organisation.
"""
