"""A chain of functions over a list of values.

Where a function fails on any value there is no result, and the template is run as it stands: only that run
knows how to word the failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakerunner_query.evaluate.logs.templates.chains import Chain, Step
from lakerunner_query.gotext.fmt_print import printed
from lakerunner_query.gotext.limits import Budget, allow_text
from lakerunner_query.gotext.regexp import replace_all_in
from lakerunner_query.gotext.values import Row, TemplateError

_AT_ONCE: dict[str, Callable[[list[str], tuple[Any, ...], tuple[Any, ...]], list[str] | None]] = {
    "regexReplaceAll": lambda texts, before, after: (
        replace_all_in(texts, before[0], after[0]) if len(before) == 1 else None
    ),
}
"""Functions that Arrow does for all values in one call; None where it may not."""


def chained(chain: Chain, values: list[Any], row: Row, budget: Budget) -> list[str] | None:
    try:
        for step in chain.steps:
            values = _stepped(step, values, row, budget)
    except TemplateError:
        return None
    return [value if isinstance(value, str) else printed(value) for value in values]


def _stepped(step: Step, values: list[Any], row: Row, budget: Budget) -> list[Any]:
    at_once = _AT_ONCE.get(step.function.name)
    made = at_once(values, step.before, step.after) if at_once else None
    if made is None:
        made = [_called(step, value, row, budget) for value in values]
    longest = max((len(text) for text in made if isinstance(text, str)), default=0)
    allow_text(longest)
    budget.hold_step(sum(len(text) for text in made if isinstance(text, str)))
    return made


def _called(step: Step, value: Any, row: Row, budget: Budget) -> Any:
    budget.start_line()
    budget.step()
    call = step.function.call
    if step.function.of_row:
        return call(row, *step.before, value, *step.after)
    return call(*step.before, value, *step.after)
