"""The segment index in PostgreSQL is one class made of one part per concern.

Each part is a handful of transactions over the statements of one `.sql` file. Nothing is cached here: whoever
may live with older answers caches where it knows how old is too old.
"""

from resources.index.postgres.accounts import Accounts
from resources.index.postgres.batches import Batches, Runs
from resources.index.postgres.connections import IndexTimeoutError, IndexUnavailableError
from resources.index.postgres.intake import IntakeDesk
from resources.index.postgres.open_tables import OpenTables
from resources.index.postgres.publishing import Publishing
from resources.index.postgres.query_jobs import QueryJobs
from resources.index.postgres.reading import Reading
from resources.index.postgres.rules import QueryLog, Rules
from resources.index.postgres.ruling import Ruling
from resources.index.postgres.sampling import Sampling
from resources.index.postgres.snapshots import Snapshots
from resources.index.postgres.sweeping import Sweeping
from resources.index.postgres.tiers import Tiers, TierStatusDesk


class PostgresIndex(
    Accounts,
    IntakeDesk,
    Batches,
    OpenTables,
    Publishing,
    QueryJobs,
    QueryLog,
    Reading,
    Rules,
    Ruling,
    Runs,
    Sampling,
    Snapshots,
    Sweeping,
    Tiers,
    TierStatusDesk,
):
    """Index in PostgreSQL that implements every protocol of `resources.index.contract`."""


__all__ = ["IndexTimeoutError", "IndexUnavailableError", "PostgresIndex"]
