"""The verbs of `lakerunner rules` that read rule files or ask the query API."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakerunner_cli.command import CommandError
from lakerunner_cli.query_client import QueryClient, open_client
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.rules.documents import RecordingRule, RuleLanguage
from lakerunner_query.rules.rule_files import FileForm, RuleFile, read_file
from resources.settings import Settings

PATH = "/api/v1/rules"
SIGNS = {"add": "+", "change": "~", "remove": "-"}
UNSERVED = 10
"""Queries that are shown of those that no rule can serve."""
LINTED = 3
"""Exit code of warnings that count as errors, as promtool's."""


def apply(args: Namespace, settings: Settings) -> int:
    files = [
        {"name": str(path), "namespace": args.namespace or path.stem, "text": _text(path)}
        for path in args.files
    ]
    body = {"files": files, "language": args.language, "prune": args.prune, "dry_run": args.dry_run}
    with _client(args, settings) as client:
        found = client.call("POST", PATH, body)
    for warning in found["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    for change in found["changes"]:
        print(f"{SIGNS[change['action']]} {change['place']}")
        for line in change["diff"].splitlines():
            print(f"  {line}")
    print(_summary(found["changes"], is_dry=args.dry_run))
    return 0


def _summary(changes: list[Mapping[str, str]], *, is_dry: bool) -> str:
    """Count the changes.

    >>> _summary([{"action": "add"}, {"action": "add"}, {"action": "remove"}], is_dry=False)
    '2 added, 0 changed, 1 removed'
    >>> _summary([], is_dry=True)
    'nothing would change'
    """
    if not changes:
        return "nothing would change" if is_dry else "nothing changed"
    actions = [change["action"] for change in changes]
    counts = (f"{actions.count(one)} {word}" for one, word in _DONE.items())
    return ("would be: " if is_dry else "") + ", ".join(counts)


_DONE = {"add": "added", "change": "changed", "remove": "removed"}


def list_rules(args: Namespace, settings: Settings) -> int:
    with _client(args, settings) as client:
        found = client.call("GET", PATH, {})
    rows = (
        (rule["kind"], rule["namespace"], rule["name"], str(rule["version"]), _content(rule["document"]))
        for rule in found["rules"]
    )
    _print_table(("KIND", "NAMESPACE", "NAME", "VERSION", "CONTENT"), rows)
    return 0


def _content(document: Mapping[str, Any]) -> str:
    """Describe a rule in few words.

    >>> _content({"metric": "m", "source": "logs", "select": '{a="b"}'})
    'from logs: {a="b"}'
    """
    if "rules" not in document:
        return f"from {document['source']}: {document['select']}"
    alerts = sum(rule["rule"] == "alert" for rule in document["rules"])
    return f"{document['language']}: {alerts} alerts, {len(document['rules']) - alerts} recording rules"


def show(args: Namespace, settings: Settings) -> int:
    wanted = {"namespace": args.namespace, "name": args.name, "format": "yaml"}
    with _client(args, settings) as client:
        text = client.text("GET", PATH, {name: value for name, value in wanted.items() if value})
    if not text:
        raise CommandError("no such rules")
    sys.stdout.write(text)
    return 0


def suggest(args: Namespace, settings: Settings) -> int:
    """Print what rules would have saved and cost, and the rules; with a file, write them there."""
    with _client(args, settings) as client:
        found = client.call("GET", f"{PATH}/suggestions", {"since": args.since})
    proposals = found["proposals"]
    if proposals:
        _print_table(("METRIC", "ASKED", "TOOK", "READ", "SAVES", "SERIES", "PER DAY"), map(_row, proposals))
    else:
        print("no rule is suggested")
    if found["has_rules"]:
        print(f"\nqueries that have rules already: {found['has_rules']}")
    if found["unserved"]:
        print("\nno rule can serve:")
        for one in found["unserved"][:UNSERVED]:
            print(f"  {one['query']}\n    {one['asked']} times, {one['seconds']:.1f} s: {one['reason']}")
        if len(found["unserved"]) > UNSERVED:
            print(f"  and {len(found['unserved']) - UNSERVED} more")
    if args.apply_file and proposals:
        args.apply_file.write_text(found["file"])
        print(f"\nwritten: {args.apply_file}; apply it with: lakerunner rules apply {args.apply_file}")
    elif proposals:
        print(f"\n{found['file']}", end="")
    return 0


def history(args: Namespace, settings: Settings) -> int:
    """Print at which evaluations alerts were decided without records that came late."""
    with _client(args, settings) as client:
        found = client.call("GET", f"{PATH}/history", {"start": f"e-{args.since}", "end": "now"})
    if not found["corrections"]:
        print("no alert was decided wrongly")
        return 0
    rows = (
        (
            one["from"], one["to"], one["verdict"].replace("_", " "), one["alert"], one["value"] or "-",
            " ".join(f"{name}={text}" for name, text in one["labels"].items() if name != "alertname"),
            one["found"],
        )
        for one in found["corrections"]
    )  # fmt: skip
    _print_table(("FROM", "TO", "VERDICT", "ALERT", "VALUE", "LABELS", "FOUND"), rows)
    return 0


def _row(proposal: Mapping[str, Any]) -> tuple[str, ...]:
    saved = proposal["saved_seconds"], proposal["saved_bytes"]
    return (
        proposal["metric"],
        f"{proposal['asked']} times",
        f"{proposal['seconds']:.1f} s",
        size_text(proposal["read_bytes"]),
        f"{saved[0]:.1f} s, {size_text(saved[1])}",
        f"about {proposal['series']}",
        f"up to {size_text(proposal['bytes_per_day'])}",
    )


def size_text(size: float) -> str:
    """Print bytes for people.

    >>> size_text(512), size_text(4.2e9)
    ('512 B', '4.2 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _print_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def delete(args: Namespace, settings: Settings) -> int:
    wanted = {"metric": args.metric, "namespace": args.namespace, "group": args.group}
    with _client(args, settings) as client:
        found = client.call("DELETE", PATH, {name: value for name, value in wanted.items() if value})
    print(f"{found['deleted']} deleted")
    return 0


def check(args: Namespace, settings: Settings) -> int:
    flags = [name.strip() for name in settings.query_features.split(",") if name.strip()]
    form = FileForm(RuleLanguage(args.language), features=Features.from_flags(flags))
    has_failed = has_warned = False
    for path in args.files:
        found = read_file(_text(path).encode(), form)
        print(f"Checking {path}")
        if found.faults:
            has_failed = True
            print("  FAILED:")
            for fault in found.faults:
                print(fault.at(str(path)))
            continue
        print(f"  SUCCESS: {_counted(found)}")
        for warning in found.warnings():
            has_warned = True
            print(f"  warning: {warning.at(str(path))}")
    if has_failed:
        return 1
    return LINTED if has_warned and args.lint_fatal else 0


def _counted(found: RuleFile) -> str:
    rules = [rule for _, group in found.groups for rule in group.rules]
    recording = sum(isinstance(rule, RecordingRule) for rule in rules)
    counts = f"{len(rules) - recording} alerts, {recording} recording rules"
    return f"{counts}, {len(found.derived)} derived metrics" if found.derived else counts


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


@contextmanager
def _client(args: Namespace, settings: Settings) -> Iterator[QueryClient]:
    client = open_client(args.url, args.key, settings)
    try:
        yield client
    finally:
        client.close()
