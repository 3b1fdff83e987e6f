"""The examples in the docstrings of templates are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from lakerunner_query import gotext
from lakerunner_query.gotext import template
from lakerunner_query.logql import templates

MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (templates, template, gotext)
    for module in pkgutil.iter_modules(package.__path__)
    if not module.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = [name for name in MODULES if any(t.examples for t in finder.find(importlib.import_module(name)))]
    assert len(found) > 10
