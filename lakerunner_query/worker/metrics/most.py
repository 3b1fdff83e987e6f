"""How much one selector may read: an error that says what to narrow, before memory is full."""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.errors import LimitExceededError


@dataclass(slots=True)
class Most:
    """What one selector may need; 0: any number. Remembers the most that one did."""

    series: int = 0
    samples: int = 0
    seen_series: int = 0
    seen_samples: int = 0

    def check_series(self, count: int) -> None:
        self.seen_series = max(self.seen_series, count)
        if self.series and count > self.series:
            raise LimitExceededError(
                f"a selector matches more than {self.series} series (query_max_series): "
                "add matchers, or narrow the time range"
            )

    def check_samples(self, count: int) -> None:
        self.seen_samples = max(self.seen_samples, count)
        if self.samples and count > self.samples:
            raise LimitExceededError(
                "query processing would load too many samples into memory in query execution: "
                f"more than {self.samples} (query_max_samples); add matchers, or narrow the time range"
            )
