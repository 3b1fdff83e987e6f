"""A text that was parsed lately is planned on the event loop, any other one in a thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from lakerunner_query.coordinator import logql_lines
from lakerunner_query.coordinator.logql_lines import MOST_KINDS, MOST_QUICK, gives_lines, is_planned_quickly


@pytest.fixture(autouse=True)
def parsing_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Threads that parsed, in order."""
    seen: list[int] = []
    parse = logql_lines.parse_cached

    def noted(text: str) -> object:
        seen.append(threading.get_ident())
        return parse(text)

    monkeypatch.setattr(logql_lines, "_kinds", {})
    monkeypatch.setattr(logql_lines, "parse_cached", noted)
    return seen


def test_a_new_text_is_parsed_in_a_thread_and_once(parsing_threads: list[int]) -> None:
    async def ask() -> list[bool]:
        texts = ('{a="b"} |= "c"', 'count_over_time({a="b"}[1m])') * 2
        return [await gives_lines(text) for text in texts]

    assert asyncio.run(ask()) == [True, False, True, False]
    assert len(parsing_threads) == 2
    assert threading.get_ident() not in parsing_threads


def test_only_short_texts_that_are_known_are_planned_quickly() -> None:
    short, long = '{a="b"}', '{a="b"} |= "' + "c" * MOST_QUICK + '"'
    before = is_planned_quickly(short)
    for text in (short, long):
        assert logql_lines.is_log_query(text)
    assert (before, is_planned_quickly(short), is_planned_quickly(long)) == (False, True, False)


def test_old_texts_are_forgotten() -> None:
    for number in range(MOST_KINDS + 1):
        logql_lines.is_log_query(f'{{a="{number}"}}')
    assert not is_planned_quickly('{a="0"}')
    assert is_planned_quickly(f'{{a="{MOST_KINDS}"}}')
