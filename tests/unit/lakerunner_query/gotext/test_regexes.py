"""Regular expressions as RE2 sees them, and as the older RE2 of DuckDB wants them spelled."""

from __future__ import annotations

import pytest

from lakerunner_query.gotext.regexp import for_duckdb, full_matches


def test_label_regexes_are_anchored_and_see_newlines() -> None:
    values = ["web", "webs", "xweb", "w\nb", "", "WEB"]
    assert full_matches("w.b", values) == [True, False, False, True, False, False]
    assert full_matches("(?i)web|xweb", values) == [True, False, True, False, False, True]
    assert full_matches("a|", values) == [False, False, False, False, True, False]


@pytest.mark.parametrize(
    ("given_pattern", "spelled"),
    [
        ("(?<a>x)(?P<b>y)(?i)(?:z)", "(?P<a>x)(?P<b>y)(?i)(?:z)"),
        (r"\(?<a>", r"\(?<a>"),
        (r"\\(?<a>x)", r"\\(?P<a>x)"),
        (r"[(?<a>][]](?<b>[^](?<c>\]])", r"[(?<a>][]](?P<b>[^](?<c>\]])"),
        (r"[[:alpha:](?<a>](?<b>x)", r"[[:alpha:](?<a>](?P<b>x)"),
        (r"\Q(?<a>\E(?<b>x)\Q(?<c>", r"\Q(?<a>\E(?P<b>x)\Q(?<c>"),
    ],
)
def test_named_groups_as_the_older_re2_of_duckdb_spells_them(given_pattern: str, spelled: str) -> None:
    assert for_duckdb(given_pattern) == spelled
