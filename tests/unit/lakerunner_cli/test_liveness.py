"""When a component that stopped answering counts as silent, and when as dead."""

from __future__ import annotations

from lakerunner_cli.stack.liveness import WHILE_WORKING, Liveness, Pulse


def _pulses(cpu_per_look: float, looks: int, stopped: bool = False) -> list[Pulse]:
    liveness = Liveness.starting(30.0, 0.0)
    return [liveness.missed(5.0 * n, cpu_per_look * n, stopped) for n in range(1, looks + 1)]


def test_an_idle_one_is_silent_after_two_looks_and_dead_after_its_patience() -> None:
    assert _pulses(0.0, 7) == [Pulse.DOUBTFUL, *[Pulse.SILENT] * 5, Pulse.DEAD]


def test_a_stopped_one_is_silent_at_the_first_look() -> None:
    assert _pulses(0.0, 1, stopped=True) == [Pulse.SILENT]


def test_one_that_works_has_ten_times_as_long() -> None:
    found = _pulses(1.0, 61)
    assert set(found[1:60]) == {Pulse.SILENT}
    assert found[60] is Pulse.DEAD
    assert WHILE_WORKING == 10


def test_an_answer_begins_anew() -> None:
    liveness = Liveness.starting(30.0, 0.0)
    assert liveness.missed(25.0, 0.0, stopped=False) is Pulse.DOUBTFUL
    assert liveness.answered(30.0) is Pulse.ANSWERS
    assert liveness.missed(55.0, 0.0, stopped=False) is Pulse.DOUBTFUL


def test_nobody_is_blamed_while_what_it_needs_is_away() -> None:
    liveness = Liveness.starting(30.0, 0.0)
    assert [liveness.excused(5.0 * n) for n in range(1, 40)] == [Pulse.DOUBTFUL] * 39
    assert liveness.missed(200.0, 0.0, stopped=False) is Pulse.DOUBTFUL
