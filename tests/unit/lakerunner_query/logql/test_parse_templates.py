"""The parser knows the functions of templates by name, the evaluation by what they do."""

from __future__ import annotations

from lakerunner_query.logql.lang.templates import TEMPLATE_FUNCTIONS
from lakerunner_query.logql.templates.functions import FUNCTIONS


def test_names_are_those_of_the_functions() -> None:
    assert FUNCTIONS.keys() == TEMPLATE_FUNCTIONS
