"""A query's text as the pipeline that a worker runs, rewritten by the rules of the coordinator."""

from __future__ import annotations

from functools import lru_cache

from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.plan.logql import Pipeline
from lakerunner_query.plan.optimise import improved


@lru_cache(256)
def planned(text: str) -> Pipeline:
    """Every unit of a query brings the same text."""
    return improved(parse(text)).pipeline
