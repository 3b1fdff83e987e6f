"""`lakerunner sampler …`: try sampling policies on spans of the past, and explain decisions.

A verb is a row of `VERBS`: its help, its arguments, and the function that runs it. Heavy imports stay inside
the functions, because building the help text loads every command.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from resources.settings import Settings

NAME = "sampler"
HELP = "Tail sampling: run a sampler, try policies on the past, explain decisions."
EXAMPLES = """\
examples:
  lakerunner sampler run --config sampler.yaml
  lakerunner sampler backtest --policies new.yaml --files 'spans/*.parquet'
  lakerunner sampler backtest --policies new.yaml --against current.yaml --config sampler.yaml \\
      --from now-6h --to now-1h --plot
"""
Run = Callable[[Namespace, Settings], int]


@dataclass(frozen=True, slots=True)
class Verb:
    help: str
    configure: Callable[[ArgumentParser], None]
    run: Run
    examples: str = ""


def configure(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, verb in VERBS.items():
        sub = verbs.add_parser(
            name, help=verb.help, description=verb.help, epilog=verb.examples,
            formatter_class=RawDescriptionHelpFormatter,
        )  # fmt: skip
        sub.set_defaults(verb=name)
        # the command has this option already; people type it last, where only the verb's parser sees it
        sub.add_argument("--data-dir", type=Path, default=SUPPRESS, help=SUPPRESS)
        verb.configure(sub)


def run(args: Namespace, settings: Settings) -> int:
    return VERBS[args.verb].run(args, settings)


def _configure_backtest(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--policies", type=Path, required=True, metavar="FILE",
        help="policies to try: a policy file, a collector's configuration or a sampler's",
    )  # fmt: skip
    parser.add_argument("--against", type=Path, metavar="FILE", help="policies in force, to compare with")
    _add_source(parser)
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")
    parser.add_argument("--plot", action="store_true", help="draw the share of kept traces over time")


def _configure_explain(parser: ArgumentParser) -> None:
    parser.add_argument("trace_id", metavar="TRACE_ID", help="32 hexadecimal digits")
    parser.add_argument("--policies", type=Path, metavar="FILE", help="policies to explain it by")
    parser.add_argument(
        "--url", default="", help="ask this sampler what it decided, such as http://localhost:8080"
    )
    _add_source(parser)
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")


def _add_source(parser: ArgumentParser) -> None:
    """Add the options that say where spans are."""
    parser.add_argument(
        "--files", metavar="GLOB", help="Parquet files with spans, '**' for all folders below"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="the sampler's configuration: its table")
    parser.add_argument("--table", metavar="NAMESPACE.TABLE", help="another table of the configured catalog")
    parser.add_argument(
        "--shape", choices=("canonical", "automq_flat", "automq_raw", "lake"),
        help="shape of the table (default: the configured one, for files by their columns)",
    )  # fmt: skip
    parser.add_argument(
        "--from",
        dest="start",
        default="",
        metavar="TIME",
        help="begin of the window: now-6h, 2026-01-01T00:00:00Z",
    )
    parser.add_argument("--to", dest="end", default="", metavar="TIME", help="its end (default: now)")
    parser.add_argument(
        "--inactivity", type=float, metavar="SECONDS", help="silence that ends a trace (default 300)"
    )
    parser.add_argument(
        "--memory-mb", type=int, default=512, metavar="MB", help="memory of the query (default 512)"
    )


def _configure_run(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE",
        help="table, Redis, destinations and policies; see docs/how-to-sample-traces.md",
    )  # fmt: skip


def _run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.sampler_actions import run_sampler

    return run_sampler(args, settings)


def _backtest(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.sampler_actions import run_backtest

    return run_backtest(args, settings)


def _explain(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.sampler_actions import explain

    return explain(args, settings)


VERBS: Mapping[str, Verb] = {
    "run": Verb("Follow a table of spans, decide which traces are kept, export them.", _configure_run, _run),
    "backtest": Verb(
        "Decide spans of the past with a policy file.", _configure_backtest, _backtest, EXAMPLES
    ),
    "explain": Verb("Explain the decision on one trace.", _configure_explain, _explain),
}
