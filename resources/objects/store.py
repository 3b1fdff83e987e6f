"""Object storage is opened by `open_store(url, settings)`.

Clients are cached per process, URL and credentials; after a fork (Spark's Python workers) the child opens its
own, since the library's threads do not survive one. The client itself is `client.py`.
"""

from __future__ import annotations

import os
import threading

from resources.objects.backend import open_backend
from resources.objects.client import ObjectStore
from resources.objects.latency import LATENCY
from resources.settings import Settings

_lock = threading.Lock()
_open: dict[tuple[int, str, str, str], ObjectStore] = {}


def open_store(url: str, settings: Settings, credentials_ref: str = "") -> ObjectStore:
    """Open the client for `url` (`file:///dir`, `s3://bucket/prefix`, `gs://…`, `az://container/prefix`)."""
    key = (os.getpid(), url, credentials_ref, settings.s3_endpoint)
    with _lock:
        if key not in _open:
            backend = open_backend(url, settings, credentials_ref)
            _open[key] = ObjectStore(url, credentials_ref, backend, settings.store_max_retries)
        return _open[key]


def reopen_store(url: str, credentials_ref: str) -> ObjectStore:
    """Open an unpickled client anew with the settings of this process."""
    return open_store(url, Settings.load(), credentials_ref)


def render_store_metrics() -> str:
    """Write the latency of every operation of this process, by outcome, as Prometheus text."""
    return LATENCY.render()
