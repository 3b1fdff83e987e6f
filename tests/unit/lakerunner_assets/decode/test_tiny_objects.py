"""Objects of nought to sixteen bytes of every format and signal: rows, or a reason, and nothing else."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from benchmarks.fuzz_decoders import run_case
from benchmarks.fuzz_payloads import HEADS, Case, cases_of, samples
from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.formats import MARKER, sniff
from resources.lake.layout import Signal
from tests.support.cooking_lake import lake_in
from tests.support.decoding import decode_object


def tiny() -> list[bytes]:
    random_ = random.Random(1)
    heads = {sample.data[:length] for sample in samples() for length in range(17)}
    heads |= {head + random_.randbytes(length) for head in HEADS for length in range(13)}
    return sorted(heads)


@pytest.mark.parametrize("signal", Signal)
def test_tiny_objects_decode_or_are_refused(signal: Signal, tmp_path: Path) -> None:
    outcomes = {
        run_case(Case(number, signal, "tiny", "object", data, 1 << 20), tmp_path)
        for number, data in enumerate(tiny())
    }
    assert outcomes == {"decoded", "refused"}


def test_a_marker_cut_short_says_so() -> None:
    """It was an IndexError: three bytes failed a task of other organisations' objects."""
    for length in range(3, 27):
        marked = (MARKER + b"\x17prometheus.WriteRequest")[:length]
        if length < 27:
            with pytest.raises(MalformedError, match="marked as"):
                sniff(marked, "x")
    for data in (MARKER, gzip.compress(MARKER)):
        with pytest.raises(MalformedError, match="marked as"):
            list(decode_object(data))


def test_the_reason_names_the_object(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    for number, data in enumerate((b"", b"\n", b"x", MARKER, b"PAR1", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")):
        lake.arrive(f"tiny-{number}", data)
    lake.cook()
    names = sorted(reason.split(":")[0].rsplit("/", 1)[1] for reason in lake.report.failed)
    assert names == [f"tiny-{number}" for number in range(7)]


def test_mutated_payloads_of_every_format(tmp_path: Path) -> None:
    """A few of the millions of `python -m benchmarks.fuzz_decoders`."""
    outcomes = [run_case(case, tmp_path) for case in cases_of(7, 0, 400)]
    assert set(outcomes) == {"decoded", "refused"}
