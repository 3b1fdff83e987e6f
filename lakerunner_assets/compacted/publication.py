"""From the answer of a merge to its publication: the inputs retire, the outputs live, no version moves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lakerunner_assets.compacted.units import MergeAnswer, MergeUnit, Output
from lakerunner_assets.publish import UnbalancedError, new_segment
from resources.index.types import Claim, Publication


def merged_publication(
    claim: Claim, unit: MergeUnit, answer: MergeAnswer, *, settled: bool = False
) -> Publication:
    """Refused unless every row that went in is accounted for."""
    _balance(unit, answer)
    return Publication(
        claim=claim,
        segments=tuple(
            new_segment(
                claim,
                output.segment,
                frequency_ms=claim.frequency_ms,
                width_ns=output.width_ns,
                level=unit.generation,
                settled=settled,
            )
            for output in answer.outputs
        ),
        retire=tuple(source.segment_id for source in unit.sources),
        frequency_ms=claim.frequency_ms,
    )


def overlaps(outputs: Sequence[Output]) -> list[str]:
    """Outputs of one merge and window whose sort keys overlap, by name; there should be none."""
    found: list[str] = []
    ordered = sorted(outputs, key=lambda o: (o.segment.hour_ns, o.width_ns, o.first_key))
    for before, after in pairwise(ordered):
        same_window = (before.segment.hour_ns, before.width_ns) == (after.segment.hour_ns, after.width_ns)
        if same_window and after.first_key < before.last_key:
            found.append(f"{before.segment.segment_id} and {after.segment.segment_id}")
    return found


def _balance(unit: MergeUnit, answer: MergeAnswer) -> None:
    indexed = sum(source.rows for source in unit.sources)
    in_segments = sum(output.segment.facts.rows for output in answer.outputs)
    accounted = answer.rows_written + answer.duplicates
    if not indexed == answer.rows_read == accounted or in_segments != answer.rows_written:
        raise UnbalancedError(
            f"batch {unit.batch_id}: {indexed} rows in the index, {answer.rows_read} read, "
            f"{answer.rows_written} written and {answer.duplicates} duplicates, {in_segments} in new segments"
        )
