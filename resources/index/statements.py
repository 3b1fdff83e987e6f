"""SQL statements are loaded by name from the `.sql` files beside this module.

A statement starts at `-- name: find_api_key` and ends at the next name; comments stay with it, so that they
show up in the server's log next to what they explain.
"""

from __future__ import annotations

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load(file: str) -> dict[str, bytes]:
    """Load `{"find_api_key": b"SELECT …", …}` of `sql/{file}.sql`; a name used twice is an error."""
    text = (files("resources.index") / "sql" / f"{file}.sql").read_text()
    parts = _NAME.split(text)[1:]
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"sql/{file}.sql names a statement twice")
    return {name: body.strip().rstrip(";").encode() for name, body in zip(names, bodies, strict=True)}
