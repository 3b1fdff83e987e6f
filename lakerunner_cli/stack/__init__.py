"""The local stack: every real part of the system, supervised on one machine.

`components/` describes the parts as values, `site.py` chooses directories, ports and secrets,
`supervisor.py` keeps the parts running and `state.py` publishes their state to other processes. Start at
`components/__init__.py`, the list of parts.
"""
