"""Which columns of a CSV file of metrics hold values, when no column names the metric: text does not tell.

Columns of whose first cells most read as numbers do. An organisation that says which (`fields`: `value`) is
obeyed.
"""

from __future__ import annotations

from lakerunner_assets.decode.foreign.mapping import ROLES_OF_SIGNAL, OwnNames, comparable, resolve, valid
from lakerunner_assets.decode.foreign.numbers import read_numbers
from lakerunner_assets.decode.json.lines import RawRows

SAMPLE_ROWS = 1000


def value_names(rows: RawRows, own_names: OwnNames) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The `fields` setting, with the numeric columns as names of the `value` role where that is undecided."""
    given = tuple((role, tuple(names)) for role, names in own_names)
    roles = resolve(list(rows.columns), own_names, ROLES_OF_SIGNAL["metrics"])
    if roles["metric_name"] or any(role == "value" for role, _ in given):
        return given
    others = {key for role, keys in roles.items() for key in keys if role != "value"}
    names: list[str] = []
    for key, column in sorted(rows.columns.items(), key=lambda item: item[0]):
        sample = column.drop_null().slice(0, SAMPLE_ROWS)
        present = valid(sample)
        numeric = read_numbers(key[1], sample).known
        if key not in others and 2 * numeric.sum() > present.sum():
            names.append(comparable(key[0]))
    return (*given, ("value", tuple(names)))
