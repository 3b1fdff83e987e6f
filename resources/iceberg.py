"""The catalog of open tables is opened here, from the settings.

Without a setting it is pyiceberg's SQL catalog in the database of the index, in the schema
`lakerunner_tables`; Iceberg's own JDBC catalog reads the same rows. `LAKERUNNER_TABLES_CATALOG` holds any
other as properties of pyiceberg: `type=rest;uri=https://catalog:8181;warehouse=lake`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.signals import FACTS
from resources.settings import Settings, SettingsError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG = "lakerunner"
"""Name of the catalog, which the SQL catalog stores in its rows."""
SCHEMA = "lakerunner_tables"
_NAMES = {FACTS[Signal.TRACES].dataset: "spans"}
TABLES: dict[str, str] = {
    _NAMES.get(dataset, dataset.replace("-", "_")): dataset
    for dataset in (*(FACTS[s].dataset for s in Signal), *(rollup.dataset for rollup in ROLLUPS))
}
"""Dataset by name of its table."""
NAMES = {dataset: name for name, dataset in TABLES.items()}


class CatalogError(RuntimeError):
    """The catalog of open tables did not do what it was asked for."""


@contextmanager
def open_catalog(settings: Settings) -> Iterator[Catalog]:
    """Open the catalog for as long as the block runs."""
    from pyiceberg.catalog import load_catalog

    properties = {**file_properties(settings), **catalog_properties(settings)}
    try:
        catalog = load_catalog(CATALOG, **properties)
    except Exception as error:
        raise CatalogError(f"the catalog of open tables cannot be opened: {error}") from error
    try:
        yield catalog
    finally:
        catalog.close()


def catalog_properties(settings: Settings) -> dict[str, str]:
    """Return the properties of the catalog that the settings name, as pyiceberg spells them."""
    if settings.tables_catalog:
        return parse_properties(settings.tables_catalog)
    return {"type": "sql", "uri": sql_uri(settings.require("index_dsn")), "pool_pre_ping": "true"}


def parse_properties(text: str) -> dict[str, str]:
    """Parse `name=value;name=value`.

    >>> parse_properties("type=rest; uri=http://h:1/?a=b")
    {'type': 'rest', 'uri': 'http://h:1/?a=b'}
    """
    pairs = [part.strip().partition("=") for part in text.split(";") if part.strip()]
    if any(not name or not sign for name, sign, _ in pairs):
        raise SettingsError(
            "LAKERUNNER_TABLES_CATALOG: expected NAME=VALUE;NAME=VALUE with properties of pyiceberg"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


def sql_uri(dsn: str) -> str:
    """Spell the database of the index as SQLAlchemy does."""
    from psycopg.conninfo import conninfo_to_dict
    from sqlalchemy.engine import URL

    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    user, password, database = (parts.pop(name, None) for name in ("user", "password", "dbname"))
    query = {**parts, "options": f"{parts.get('options', '')} -csearch_path={SCHEMA}".strip()}
    url = URL.create("postgresql+psycopg", user, password, database=database, query=query)
    return url.render_as_string(hide_password=False)


def file_properties(settings: Settings) -> dict[str, str]:
    """Return how pyiceberg reaches the lake."""
    from resources.objects.backend import scheme_of

    if scheme_of(settings.require("lake_url")) != "s3":
        return {}
    found = {
        "s3.endpoint": settings.s3_endpoint,
        "s3.region": settings.s3_region,
        "s3.access-key-id": settings.s3_access_key_id,
        "s3.secret-access-key": settings.s3_secret_access_key,
    }
    return {name: value for name, value in found.items() if value}


def dataset_of_table(name: str) -> str:
    """Return the dataset of a table.

    >>> dataset_of_table("metrics_10s"), dataset_of_table("spans")
    ('metrics-10s', 'traces')
    """
    found = TABLES.get(name)
    if found is None:
        raise SettingsError(f"no table {name!r}: expected one of {', '.join(TABLES)}")
    return found
