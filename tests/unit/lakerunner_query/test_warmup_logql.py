"""The warm-up uses everything that LogQL has."""

from __future__ import annotations

import pytest

from lakerunner_query.logql.lang.aggregations import RANGE_AGGREGATIONS, VECTOR_AGGREGATIONS
from lakerunner_query.logql.lang.lexer import STAGES
from lakerunner_query.warmup import COMMON_LOGQL, logql_texts, run_logql


@pytest.mark.parametrize("word", sorted(RANGE_AGGREGATIONS | VECTOR_AGGREGATIONS | STAGES))
def test_every_word_of_the_language_is_in_some_query(word: str) -> None:
    assert any(word in text for text in logql_texts())


def test_the_common_queries_have_answers() -> None:
    assert run_logql(COMMON_LOGQL) == len(COMMON_LOGQL)
