"""The verbs of `lakerunner tables` print a result and return an exit code."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakerunner_cli.accounts import CommandIndex, open_index
from lakerunner_cli.command import CommandError
from lakerunner_cli.commands.sweep import Bars
from resources.iceberg import NAMES, TABLES, CatalogError, dataset_of_table, open_catalog
from resources.index.open_tables import OpenTable
from resources.lake.layout import table_prefix
from resources.objects.store import open_store
from resources.settings import Settings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[CommandIndex, Catalog]]:
    """Open index and catalog; what is wrong with the catalog is one line for a person."""
    try:
        with open_index(settings) as index, open_catalog(settings) as catalog:
            yield index, catalog
    except CatalogError as error:
        raise CommandError(str(error)) from error


def chosen(index: CommandIndex, args: Namespace) -> list[OpenTable]:
    """Return the open tables that the arguments name; it is an error if there are none."""
    _check_org(index, args.org)
    found = [t for t in index.list_tables(args.org) if not args.table or NAMES[t.dataset] in args.table]
    if not found:
        of = f" of {args.org}" if args.org else ""
        raise CommandError(f"no such table{of} is open; `lakerunner tables on --org ORG` opens them")
    return found


def open_tables(args: Namespace, settings: Settings) -> int:
    with open_index(settings) as index:
        _check_org(index, args.org)
        for name in args.table or TABLES:
            is_new = index.add_table(args.org, dataset_of_table(name))
            print(f"{args.org}.{name}: {'opened' if is_new else 'was open'}")
    print(f"the pipeline fills them within {settings.tables_every_s} s, `lakerunner tables update` at once")
    return 0


def close_tables(args: Namespace, settings: Settings) -> int:
    from pyiceberg.exceptions import NoSuchTableError

    with opened(settings) as (index, catalog):
        lake = open_store(settings.require("lake_url"), settings)
        for table in chosen(index, args):
            name = NAMES[table.dataset]
            try:
                catalog.drop_table((table.org, name))
            except NoSuchTableError:
                print(f"{table.org}.{name}: was not in the catalog")
            index.remove_table(table.org, table.dataset)
            for infos in list(lake.list(table_prefix(table.org, name))):
                lake.delete([info.key for info in infos])
            print(f"{table.org}.{name}: closed; the segments are where they were")
    return 0


def list_tables(args: Namespace, settings: Settings) -> int:
    with opened(settings) as (index, catalog):
        rows = [describe(catalog, table, settings) for table in chosen(index, args)]
    if args.json:
        print(json.dumps(rows))
        return 0
    print("\n".join(table_lines(rows)))
    if args.columns:
        for row in rows:
            for name, kinds in row["left_out"].items():
                why = " and ".join(kinds) if len(kinds) > 1 else "beyond LAKERUNNER_TABLES_COLUMNS"
                print(f"{row['table']}: {name} is left out: {why}")
    return 0


def describe(catalog: Catalog, table: OpenTable, settings: Settings) -> dict[str, Any]:
    """Return what the index and the catalog say of a table."""
    from pyiceberg.exceptions import NoSuchTableError

    from lakerunner_assets.tables.columns import TableColumns

    row: dict[str, Any] = {
        "table": f"{table.org}.{NAMES[table.dataset]}",
        "version": table.version, "committed": table.committed,
        "behind": table.version - max(table.committed, 0), "held": table.held, "files": 0, "rows": 0,
        "snapshots": 0, "columns": 0, "left_out": {}, "location": "",
        "age_s": None if math.isinf(table.committed_s) else round(table.committed_s, 1),
    }  # fmt: skip
    try:
        loaded = catalog.load_table((table.org, NAMES[table.dataset]))
    except NoSuchTableError:
        return row
    snapshot = loaded.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    columns = TableColumns.of(loaded.properties, loaded.metadata.last_column_id)
    row |= {
        "files": int(summary.get("total-data-files", 0)),
        "rows": int(summary.get("total-records", 0)),
        "snapshots": len(loaded.metadata.snapshots),
        "columns": len(loaded.schema().fields),
        "left_out": {n: list(kinds) for n, kinds in columns.left_out(settings.tables_columns).items()},
        "location": loaded.metadata_location,
    }
    return row


HEADER = (
    f"{'table':<28} {'rows':>13} {'files':>7} {'columns':>8} {'left out':>8} {'snapshots':>9} "
    f"{'behind':>6} {'age':>8}  metadata"
)


def table_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each table, under a line of headings."""
    lines = [HEADER]
    for row in rows:
        age = "never" if row["age_s"] is None else f"{row['age_s']:.0f} s"
        lines.append(
            f"{row['table']:<28} {row['rows']:>13,} {row['files']:>7,} {row['columns']:>8,} "
            f"{len(row['left_out']):>8,} {row['snapshots']:>9,} {row['behind']:>6,} {age:>8}  "
            f"{row['location']}"
        )
    return lines


def update(args: Namespace, settings: Settings) -> int:
    from lakerunner_assets.tables.run import update_tables

    with open_index(settings) as index:
        wanted = [(table.org, table.dataset) for table in chosen(index, args)]
        bars = Bars()
        try:
            done = update_tables(index, settings, wanted, print, bars.tell)
        except CatalogError as error:
            raise CommandError(str(error)) from error
        finally:
            bars.close()
    for one in done:
        print(
            f"{one.org}.{one.name}: version {one.version}, {one.rows:,} rows in {one.files:,} files "
            f"(+{one.added:,} -{one.removed:,}), {one.seconds:.1f} s"
        )
    return 0


def check(args: Namespace, settings: Settings) -> int:
    from lakerunner_assets.tables.check import check_table

    problems = 0
    with opened(settings) as (index, catalog):
        lake_url = settings.require("lake_url").rstrip("/")
        lake = open_store(lake_url, settings)
        bars, found = Bars(), []
        tables = chosen(index, args)
        for place, table in enumerate(tables):
            found.append(check_table(catalog, index, lake, lake_url, table, read=args.read))
            bars.tell("tables", place + 1, len(tables))
        bars.close()
    for one in found:
        problems += len(one.problems)
        read = "" if one.read_rows is None else f", {one.read_rows:,} rows read"
        late = f", {one.behind:,} publications behind" if one.behind else ""
        held = f"{one.rows:,} rows in {one.files:,} files"
        print(f"{one.org}.{one.name}: version {one.version}, {held}{read}{late}")
        for text in (*(f"! {problem}" for problem in one.problems), *(f"  {note}" for note in one.notes)):
            print(text)
    return 1 if problems else 0


def export(args: Namespace, settings: Settings) -> int:
    from pyiceberg.exceptions import NoSuchTableError

    from lakerunner_assets.tables.delta import export_delta

    with opened(settings) as (index, catalog):
        lake = open_store(settings.require("lake_url"), settings)
        for table in chosen(index, args):
            name = NAMES[table.dataset]
            try:
                loaded = catalog.load_table((table.org, name))
            except NoSuchTableError as error:
                raise CommandError(
                    f"{table.org}.{name} has no snapshot yet; `lakerunner tables update` makes one"
                ) from error
            done = export_delta(loaded, table.org, name, lake, settings)
            print(
                f"{table.org}.{name}: entry {done.entry}, {done.files:,} files "
                f"(+{done.added:,} -{done.removed:,}): {done.location}"
            )
    return 0


def sql(args: Namespace, settings: Settings) -> int:
    from pyiceberg.exceptions import NoSuchTableError

    from lakerunner_assets.tables.views import DIALECTS, view_statement

    quote = DIALECTS[args.dialect].quote
    with opened(settings) as (index, catalog):
        _check_org(index, args.org)
        try:
            loaded = catalog.load_table((args.org, args.table))
        except NoSuchTableError as error:
            raise CommandError(f"the catalog has no table {args.org}.{args.table}") from error
    names = [field.name for field in loaded.schema().fields]
    source = args.source or f"{quote}{args.org}{quote}.{quote}{args.table}{quote}"
    view = f"{quote}{args.table}_view{quote}"
    print(view_statement(names, dataset_of_table(args.table), args.dialect, source, view))
    return 0


def _check_org(index: CommandIndex, org: str) -> None:
    if org and org not in index.all_organisations():
        raise CommandError(f"no organisation {org!r}")


ACTIONS: Mapping[str, Callable[[Namespace, Settings], int]] = {
    "on": open_tables,
    "off": close_tables,
    "list": list_tables,
    "update": update,
    "check": check,
    "export": export,
    "sql": sql,
}
