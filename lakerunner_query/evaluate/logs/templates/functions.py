"""The functions that a template may call: Loki's, and those that Go's templates always have.

A function knows the Go types of its parameters, because arguments are checked, and constants read, by them.
"""

from __future__ import annotations

from lakerunner_query.evaluate.logs.templates.math_functions import MATH
from lakerunner_query.evaluate.logs.templates.text_functions import TEXT
from lakerunner_query.evaluate.logs.templates.time_functions import TIME
from lakerunner_query.gotext.template.builtins import BUILTINS
from lakerunner_query.gotext.values import Function

FUNCTIONS: dict[str, Function] = {f.name: f for f in (*BUILTINS, *TEXT, *MATH, *TIME)}
