"""`lakerunner tables …`: the lake as tables of other engines.

A verb is a row of `VERBS`. The pipeline updates open tables by itself; `update` does it here and now. Heavy
imports stay inside the functions, because building the help text loads every command.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from lakerunner_cli.command import Verb, add_verbs
from resources.iceberg import TABLES
from resources.settings import Settings

NAME = "tables"
HELP = "Open the lake as Iceberg or Delta tables; list, update, check and export them."
DIALECT_NAMES = ("duckdb", "spark", "trino")


def configure(parser: ArgumentParser) -> None:
    add_verbs(parser, VERBS)


def run(args: Namespace, settings: Settings) -> int:
    return VERBS[args.verb].run(args, settings)


def _configure_scope(parser: ArgumentParser, *, org_needed: bool = False) -> None:
    parser.add_argument("--org", required=org_needed, default="", help="of this organisation only")
    parser.add_argument(
        "--table", action="append", default=[], choices=tuple(TABLES), help="this table; may be repeated"
    )


def _configure_own(parser: ArgumentParser) -> None:
    _configure_scope(parser, org_needed=True)


def _configure_list(parser: ArgumentParser) -> None:
    _configure_scope(parser)
    parser.add_argument("--columns", action="store_true", help="name the columns that are left out, and why")
    parser.add_argument("--json", action="store_true", help="for programs")


def _configure_check(parser: ArgumentParser) -> None:
    _configure_scope(parser)
    parser.add_argument(
        "--read", action="store_true", help="read the footer of every file, and count rows with pyiceberg"
    )


def _configure_export(parser: ArgumentParser) -> None:
    _configure_scope(parser, org_needed=True)
    parser.add_argument("--format", required=True, choices=("delta",), help="format of the log to write")


def _configure_sql(parser: ArgumentParser) -> None:
    parser.add_argument("--org", required=True, help="organisation of the table")
    parser.add_argument("--table", required=True, choices=tuple(TABLES), help="table that the view shows")
    parser.add_argument("--dialect", choices=DIALECT_NAMES, default="spark", help="engine (default spark)")
    parser.add_argument("--source", default="", help="SQL that names the table (default ORG.TABLE, quoted)")


def _act(name: str) -> Verb:
    """Return the row of a verb; its function is loaded when it runs."""
    help_, configure_verb = _VERBS[name]

    def act(args: Namespace, settings: Settings) -> int:
        from lakerunner_cli.table_actions import ACTIONS

        return ACTIONS[name](args, settings)

    return Verb(help_, configure_verb, act)


_VERBS = {
    "on": ("open tables of an organisation", _configure_own),
    "off": ("close tables, and drop them from the catalog; segments stay", _configure_own),
    "list": ("list open tables with what they hold", _configure_list),
    "update": ("bring tables to the index' present version", _configure_scope),
    "check": ("compare tables with the index (exit code 1 if they differ)", _configure_check),
    "export": ("write a Delta log over the same files", _configure_export),
    "sql": ("print a view that computes times and values", _configure_sql),
}
VERBS: Mapping[str, Verb] = {name: _act(name) for name in _VERBS}
