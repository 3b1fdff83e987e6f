"""Label names out of the keys of lines: what Prometheus would not take becomes an underscore."""

from __future__ import annotations

import re

_REFUSED = re.compile(r"[^a-zA-Z0-9_]")
EXTRACTED = "_extracted"


def sanitised(key: str, *, begins: bool = True) -> str:
    """A key as a label name, or as a later part of one.

    >>> sanitised(" cou-nter "), sanitised("1 1"), sanitised("1", begins=False)
    ('cou_nter', '_1_1', '1')
    """
    key = key.strip()
    if begins and key[:1].isascii() and key[:1].isdigit():
        key = "_" + key
    return _REFUSED.sub("_", key)


def joined(parent: str, key: str) -> str:
    """The name of a field within an object; an empty name leaves no trace.

    >>> joined("pod", "uuid"), joined("", "uuid"), joined("pod", " ")
    ('pod_uuid', 'uuid', 'pod')
    """
    own = sanitised(key, begins=not parent)
    return f"{parent}_{own}" if parent and own else parent or own
