"""`lakerunner doctor`: find missing parts of this machine and their remedies."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from resources.settings import Settings

NAME = "doctor"
HELP = "Check this machine and this stack (exit code 1 if something needed is missing)."


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.stack.checks import CHECKS, Verdict

    findings = [check(settings) for check in CHECKS]
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        for finding in findings:
            print(f"{finding.verdict.value:<8} {finding.check:<15} {finding.found}")
            if finding.remedy:
                print(f"{'':<24} → {finding.remedy}")
    return int(any(finding.verdict is Verdict.MISSING for finding in findings))
