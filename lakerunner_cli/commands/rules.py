"""`lakerunner rules …`: apply rule files, look at rules, check and test files, delete rules.

A verb is a row of `VERBS`: its help, its arguments, and the function that runs it. `check` and `test` read
nothing but the files, the others ask the query API. Heavy imports stay inside the functions, because building
the help text loads every command.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from lakerunner_cli import rule_tests
from lakerunner_cli.command import Verb, add_verbs
from resources.settings import Settings

NAME = "rules"
HELP = "Apply, check, test and show rules: derived metrics, recording rules, alerts."
LANGUAGES = ("promql", "logql", "traceql", "lakeql")


def configure(parser: ArgumentParser) -> None:
    add_verbs(parser, VERBS)


def run(args: Namespace, settings: Settings) -> int:
    return VERBS[args.verb].run(args, settings)


def _configure_apply(parser: ArgumentParser) -> None:
    _add_files(parser)
    parser.add_argument(
        "--namespace", default="", help="of groups whose document names none (default: the file's name)"
    )
    parser.add_argument(
        "--prune", action="store_true",
        help="remove other groups of the files' namespaces, and other derived metrics if they have any",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    _add_source(parser, "admin")


def _configure_list(parser: ArgumentParser) -> None:
    _add_source(parser, "read")


def _configure_show(parser: ArgumentParser) -> None:
    parser.add_argument("--namespace", default="", help="only groups of this one")
    parser.add_argument("--name", default="", help="only the groups, or the derived metric, of this name")
    _add_source(parser, "read")


def _configure_check(parser: ArgumentParser) -> None:
    _add_files(parser)
    parser.add_argument("--lint-fatal", action="store_true", help="warnings make the exit code 3")


def _configure_delete(parser: ArgumentParser) -> None:
    parser.add_argument("--metric", default="", help="a derived metric")
    parser.add_argument("--namespace", default="", help="all groups of a namespace")
    parser.add_argument("--group", default="", help="only this group of the namespace")
    _add_source(parser, "admin")


def _configure_suggest(parser: ArgumentParser) -> None:
    parser.add_argument("--since", default="7d", help="read the query log of so long, by days (default 7d)")
    parser.add_argument(
        "--apply-file", type=Path, metavar="FILE", help="write the rules there, for `lakerunner rules apply`"
    )
    _add_source(parser, "read")


def _configure_history(parser: ArgumentParser) -> None:
    parser.add_argument("--since", default="24h", help="what alerts missed in the last so long (default 24h)")
    _add_source(parser, "read")


def _add_files(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="rule files")
    parser.add_argument(
        "--language", choices=LANGUAGES, default="promql", help="of groups that name none (default promql)"
    )


def _add_source(parser: ArgumentParser, role: str) -> None:
    parser.add_argument("--url", default="", help="query API (default: the one of the local stack)")
    parser.add_argument(
        "--key", default="", help=f"API key with the role {role} (default LAKERUNNER_QUERY_KEY)"
    )


def _apply(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.rule_actions import apply

    return apply(args, settings)


def _list(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.rule_actions import list_rules

    return list_rules(args, settings)


def _show(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.rule_actions import show

    return show(args, settings)


def _check(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.rule_actions import check

    return check(args, settings)


def _delete(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.rule_actions import delete

    return delete(args, settings)


def _suggest(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.rule_actions import suggest

    return suggest(args, settings)


def _history(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.rule_actions import history

    return history(args, settings)


VERBS: Mapping[str, Verb] = {
    "apply": Verb("make the rules of files those of the organisation", _configure_apply, _apply),
    "list": Verb("list groups and derived metrics", _configure_list, _list),
    "show": Verb("print rules as a rule file", _configure_show, _show),
    "suggest": Verb(
        "suggest derived metrics that would have answered recent queries", _configure_suggest, _suggest
    ),
    "history": Verb(
        "list what alerts missed, or raised, for lack of late records", _configure_history, _history
    ),
    "check": Verb("check rule files, as `promtool check rules` does", _configure_check, _check),
    "test": Verb(
        "run unit tests of rules, as `promtool test rules` does",
        rule_tests.configure,
        lambda args, _: rule_tests.run(args),
    ),
    "delete": Verb("delete a derived metric, a group, or a namespace", _configure_delete, _delete),
}
