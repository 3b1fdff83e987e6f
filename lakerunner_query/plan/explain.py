"""A plan as text a person can read, with the rules that fired.

The answer to "why did this read so much": matchers, terms and filters as they are after rewriting.
"""

from __future__ import annotations

from lakerunner_query.lang.logql.printer_stages import filter_text, matcher_text
from lakerunner_query.plan.logical import LogPlan, Nothing
from lakerunner_query.plan.optimise import Optimised


def explain(optimised: Optimised) -> str:
    """Top node first, one line each, then the rules."""
    lines = _nodes(optimised.plan)
    lines.append("rules: " + (", ".join(optimised.fired) or "none fired"))
    return "\n".join(lines)


def _nodes(plan: LogPlan) -> list[str]:
    if isinstance(plan, Nothing):
        return [f"Nothing ({plan.reason})"]
    streams = plan.source.source
    selector = "{" + ", ".join(map(matcher_text, streams.matchers)) + "}"
    which = "last" if plan.reverse else "first"
    take = f"TakeRows {which} {plan.limit}{' distinct' if plan.distinct else ''}"
    filters = " ".join(map(filter_text, plan.source.filters)) or "(all lines)"
    read = (
        f"ReadStreams {selector} dataset={streams.dataset} range=[{streams.start_ns}, {streams.end_ns}) "
        f"terms={len(streams.terms)}"
    )
    return [take, f"  FilterLines {filters}", f"    {read}"]
