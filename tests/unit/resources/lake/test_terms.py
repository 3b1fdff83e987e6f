"""Index terms: stable, unambiguous, bounded."""

from __future__ import annotations

from resources.lake.terms import MAX_VALUES, alternatives, term, terms_of, wildcard


def test_values_are_frozen() -> None:
    """Stored in the index: a change needs a new TERMS_VERSION."""
    assert term("service_name", "web") == FROZEN_TERM
    assert wildcard("service_name") == FROZEN_WILDCARD


def test_borders_between_field_and_value_count() -> None:
    assert len({term("a", "bc"), term("ab", "c"), term("", "abc"), term("abc", ""), wildcard("abc")}) == 5


def test_a_planner_finds_what_a_writer_put() -> None:
    written = set(terms_of({"service_name": ["web", "api"], "log_level": ["INFO"]}))
    assert written & set(alternatives("service_name", ["api", "other"]))
    assert not written & set(alternatives("service_name", ["other"]))
    assert not written & set(alternatives("region", ["web"]))


def test_a_field_with_too_many_values_has_only_its_wildcard() -> None:
    exact = terms_of({"pod": (str(n) for n in range(MAX_VALUES))})
    assert len(exact) == MAX_VALUES
    crowded = terms_of({"pod": (str(n) for n in range(MAX_VALUES + 1)), "x": ["y"]})
    assert set(crowded) == {wildcard("pod"), term("x", "y")}
    assert set(crowded) & set(alternatives("pod", ["anything"]))


def test_terms_fit_a_signed_bigint() -> None:
    found = [term("f", str(n)) for n in range(1000)]
    assert all(-(2**63) <= value < 2**63 for value in found)
    assert min(found) < 0 < max(found)


FROZEN_TERM = -114642692578498938
FROZEN_WILDCARD = 9015737501221882005
