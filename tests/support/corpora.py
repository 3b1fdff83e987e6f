"""Recorded suites of other projects lie beside the project in `../shared/corpora`."""

from __future__ import annotations

from pathlib import Path

CORPORA = Path(__file__).resolve().parents[3] / "shared" / "corpora"
