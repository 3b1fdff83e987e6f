"""What every organisation may push, from its settings, at most a few seconds old and never waited for.

The event loop asks with every request, so reading happens in a thread of its own. Until the first reading is
done nobody is limited, and while the index is away the last reading holds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.lake.options import OptionError, OrgOptions

log = logging.getLogger(__name__)
MAX_AGE_S = 5.0


class PushLimits:
    """A `LimitOf`: the setting `push_bytes_per_second` of an organisation."""

    def __init__(self, index: IngressIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._options: Mapping[str, OrgOptions] = {}
        self._began = float("-inf")
        self._reading: threading.Thread | None = None

    def __call__(self, org: str) -> int | None:
        if self._clock() - self._began >= MAX_AGE_S and not (self._reading and self._reading.is_alive()):
            self._began = self._clock()
            self._reading = threading.Thread(target=self._read, name="push-limits", daemon=True)
            self._reading.start()
        options = self._options.get(org)
        return options.push_bytes_per_second if options else None

    def settle(self) -> None:
        """Wait for a reading under way."""
        if self._reading:
            self._reading.join()

    def _read(self) -> None:
        try:
            self._options = self._index.org_options()
        except (IndexUnavailableError, OptionError) as error:
            log.warning("limits of pushes stay as they were: %s", error)
