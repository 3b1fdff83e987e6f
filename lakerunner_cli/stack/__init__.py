"""The local stack: every real part of the system, supervised on one machine.

`components/` says what the parts are (values), `site.py` where they live (directories, ports, secrets),
`supervisor.py` keeps them running and `state.py` tells other processes about it. Read
`components/__init__.py` first: it is the list of parts.
"""
