"""The demo opens the shop's telemetry as Iceberg tables, and lets another engine count."""

from __future__ import annotations

from lakerunner_cli.accounts import CommandIndex, open_index
from lakerunner_cli.command import CommandError
from lakerunner_cli.demo.watch import Screen
from resources.iceberg import TABLES, CatalogError, open_catalog
from resources.settings import Settings

COUNT = "SELECT log_level, count(*) AS records FROM logs GROUP BY 1 ORDER BY 2 DESC"


def open_org_tables(index: CommandIndex, org: str) -> None:
    """Open all tables of the organisation."""
    for dataset in TABLES.values():
        index.add_table(org, dataset)


def show_tables(settings: Settings, org: str, screen: Screen) -> None:
    """List the tables, then count records with pyiceberg and DuckDB; an error stands in their place."""
    from lakerunner_assets.tables.run import update_tables
    from lakerunner_cli.table_actions import describe, table_lines

    screen.say("\nlakerunner tables list")
    try:
        with open_index(settings) as index:
            # the pipeline does so within a minute; nobody wants to wait for it here
            update_tables(index, settings, [(org, dataset) for dataset in TABLES.values()], screen.say)
            with open_catalog(settings) as catalog:
                rows = [describe(catalog, table, settings) for table in index.list_tables(org)]
    except (CatalogError, CommandError) as error:
        screen.say(str(error))
        return
    for line in table_lines(rows):
        screen.say(line)
    screen.say(f"\npyiceberg plans, DuckDB counts: {COUNT}")
    for level, records in count_levels(settings, org):
        screen.say(f"  {level or 'none':<8} {records:>9,}")


def count_levels(settings: Settings, org: str) -> list[tuple[str | None, int]]:
    """Count the log records of each level in the table."""
    import duckdb

    with open_catalog(settings) as catalog:
        logs = catalog.load_table((org, "logs")).scan(selected_fields=("log_level",)).to_arrow()
    with duckdb.connect() as connection:
        connection.register("logs", logs)
        return [(row[0], int(row[1])) for row in connection.execute(COUNT).fetchall()]
