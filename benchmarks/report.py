"""How a benchmark says what it found: records as JSON, a table for people, one last line for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """One figure. `value` None means it was not measured, and `reason` says why."""

    id: str
    what: str
    value: float | None
    unit: str
    must: float | None = None
    aim: float | None = None
    ok: bool | None = None
    peer: str = ""
    peer_value: float | None = None
    ratio: float | None = None
    reason: str = ""
    counters: dict[str, Any] = field(default_factory=dict)


def tell(name: str, records: Sequence[Record], json_path: Path | None) -> None:
    """Print the table and the last line; write the JSON list where asked."""
    width = max(len(record.what) for record in records)
    for record in records:
        shown = "not measured" if record.value is None else f"{record.value:,.2f} {record.unit}"
        verdict = {True: "ok", False: "MISSED", None: ""}[record.ok]
        print(f"{record.id:<10} {record.what:<{width}}  {shown:>18}  {verdict} {record.reason}")
        for counter, value in record.counters.items():
            print(f"{'':<10}   {counter}: {value}")
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(record) for record in records], indent=2) + "\n")
    print(
        f"{name}: " + " ".join(f"{r.id}={'none' if r.value is None else round(r.value, 3)}" for r in records)
    )
