"""Checks of opened bodies by protocol; they block, in a thread or in a process of their own."""

from __future__ import annotations

from lakerunner_ingress.receivers import loki, otlp, remote_write
from lakerunner_ingress.receivers.forms import CheckedPush, Form, Push
from lakerunner_ingress.receivers.memory import Hold
from lakerunner_ingress.receivers.opening import parse_cost


def check_opened(data: bytes, push: Push, hold: Hold) -> CheckedPush:
    """Check a body; afterwards `hold` covers the valid part only."""
    opened = hold.size
    hold.grow(parse_cost(data))
    checked = _check(data, push)
    hold.shrink_to(opened)
    if checked.data is not data:
        hold.grow(len(checked.data))
    hold.shrink_to(len(checked.data))
    return checked


def _check(data: bytes, push: Push) -> CheckedPush:
    if push.form is Form.LOKI_PUSH:
        return loki.read_loki(data, push.message == loki.JSON, push.times)
    if push.form is Form.REMOTE_WRITE:
        return remote_write.read_remote_write(data, push.message)
    return otlp.read_otlp(data, push.signal, push.form)
