"""What all log queries of a worker process share, and what to do about files that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.worker.opening import Opened, OpenedSet, SegmentOpener
from lakerunner_query.worker.selection import Selection
from resources.duckdb import Cancellation, DuckSession

DAMAGE = (duckdb.Error, pa.ArrowException, OSError)
"""What reading a damaged file may raise: for headers of pages DuckDB has no class of its own."""
NO_DAMAGE = (duckdb.OutOfMemoryException, duckdb.InterruptException)
"""Of those, what is not worth looking through the files for."""


@dataclass(frozen=True, slots=True)
class Shared:
    opener: SegmentOpener
    session: DuckSession
    cancellation: Cancellation


def discard_damaged(wanted: Selection, files: OpenedSet, shared: Shared) -> bool:
    """Read every file alone; True when at least one was at fault."""
    damaged = [(one, reason) for one in files.opened if (reason := damage(one, shared.cancellation))]
    for one, reason in damaged:
        shared.opener.replace_damaged(wanted, files, one, reason)
    return bool(damaged)


def damage(one: Opened, cancellation: Cancellation) -> str:
    """What is wrong with a file, every column of which is decoded; empty: nothing."""
    try:
        with pq.ParquetFile(one.path) as file:
            for number in range(file.num_row_groups):
                for name in one.footer.columns:
                    cancellation.check()
                    file.read_row_group(number, columns=[name], use_threads=False).validate(full=True)
    except (pa.ArrowException, OSError) as error:
        return str(error).splitlines()[0]
    return ""
