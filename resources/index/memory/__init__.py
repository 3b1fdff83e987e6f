"""The index in memory serves unit tests: the same parts as the one in PostgreSQL.

One contract test (`tests/contract`) runs over this and over PostgreSQL, so a test that passes here says
something about the real thing. Time comes from a `clock` that tests can move.
"""

from resources.index.memory.accounts import Accounts
from resources.index.memory.batches import Runs
from resources.index.memory.open_tables import OpenTables
from resources.index.memory.publishing import Publishing
from resources.index.memory.query_jobs import QueryJobs
from resources.index.memory.query_log import QueryLog
from resources.index.memory.rules import Rules
from resources.index.memory.ruling import Ruling
from resources.index.memory.sampling import Sampling
from resources.index.memory.sweeping import Sweeping
from resources.index.memory.tiers import TierStatusDesk


class MemoryIndex(
    Accounts,
    OpenTables,
    Publishing,
    QueryJobs,
    QueryLog,
    Rules,
    Ruling,
    Runs,
    Sampling,
    Sweeping,
    TierStatusDesk,
):
    """Index in memory that implements every protocol of `resources.index.contract`."""


__all__ = ["MemoryIndex"]
