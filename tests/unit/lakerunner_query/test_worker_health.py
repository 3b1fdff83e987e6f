"""Units that get on and units that do not, on machines with much to do; looks at threads of this process."""

from __future__ import annotations

import os
import threading
import time

from lakerunner_query.worker_health import RunningUnit, ThreadState, gets_on

LOOK_S = 0.25


def unit(*looks: tuple[float, bool]) -> RunningUnit:
    """A unit after looks that found so much CPU time, and its thread ready or not."""
    made = RunningUnit(1, 0, 0.0)
    for spent_s, is_ready in looks:
        made.charge(spent_s, LOOK_S, is_ready=is_ready)
    return made


def test_a_unit_whose_machine_is_busy_gets_on_however_little_it_is_given() -> None:
    starved = unit(*[(0.002, True)] * 40)
    assert gets_on(starved, [starved], is_silent=False)
    assert gets_on(starved, [starved], is_silent=True), "alone, it is the one that keeps the lock"


def test_a_unit_that_waits_for_something_else_does_not_get_on() -> None:
    blocked = unit(*[(0.0, False)] * 6)
    assert not gets_on(blocked, [blocked], is_silent=False)
    assert not gets_on(blocked, [blocked], is_silent=True)


def test_a_unit_is_given_some_looks_before_it_is_called_slow() -> None:
    fetching = unit((0.0, False), (0.0, False))
    assert gets_on(fetching, [fetching], is_silent=False)


def test_in_a_silent_process_the_unit_with_the_lock_gets_on_and_the_one_that_waits_for_it_does_not() -> None:
    """On a machine at rest, and on one that gives both a twentieth; a thread that waits wakes up often."""
    for given in (1.0, 0.05):
        burns, waits = unit(*[(LOOK_S * given, True)] * 3), unit((LOOK_S * given * 0.05, True))
        assert gets_on(burns, [burns, waits], is_silent=True)
        assert not gets_on(waits, [burns, waits], is_silent=True)
        assert gets_on(waits, [burns, waits], is_silent=False)


def test_a_unit_that_nobody_looked_at_takes_the_lock_from_nobody() -> None:
    burns, new = unit((0.01, True)), unit()
    assert gets_on(burns, [burns, new], is_silent=True)
    assert gets_on(new, [burns, new], is_silent=True)


def test_threads_that_compute_are_ready_and_those_that_sleep_are_not() -> None:
    is_over, ids = threading.Event(), list[int]()

    def spin() -> None:
        ids.append(threading.get_native_id())
        while not is_over.is_set():
            time.monotonic()

    def rest() -> None:
        ids.append(threading.get_native_id())
        is_over.wait()

    threads = [threading.Thread(target=spin), threading.Thread(target=rest)]
    for number, thread in enumerate(threads):
        thread.start()
        while len(ids) <= number:
            time.sleep(0.001)
    try:
        # whoever looks holds the interpreter's lock, for which the other thread then waits
        found = [ThreadState.read(os.getpid(), ids[0]) for _ in range(200) if not time.sleep(0.002)]
        assert any(state is not None and state.is_ready for state in found)
        rested = ThreadState.read(os.getpid(), ids[1])
        assert rested is not None
        assert (rested.is_ready, rested.cpu_s < 1.0) == (False, True)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert ThreadState.read(os.getpid(), ids[1]) is None
