"""From syntax to what must be read: logical nodes and the named rules that improve them.

`build.py` translates a tree one to one, `optimise.py` holds the order of the rewrites as data, `explain.py`
prints both. Nothing in here does I/O; a plan is a frozen value that can travel to a worker.
"""
