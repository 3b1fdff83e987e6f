"""One template, one number; the same number on any day."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakerunner_assets.decode.fingerprint import fingerprints, template
from tests.support.corpora import CORPORA


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("took 12ms, then 1.5s", "took *ms, then *s"),
        ("id=550e8400-e29b-41d4-a716-446655440000 x", "id=* x"),
        ("id=deadbeef-abcd-abcd-abcd-abcdefabcdef x", "id=* x"),
        ("at 0x7ffe1a2b by 10.1.2.3:8080", "at * by *"),
        ("from fe80::1ff:fe23:4567:890a up", "from * up"),
        ("2026-01-02T03:04:05.678Z start", "*T*Z start"),
        ("blk_-1608999687919862906 ok", "blk_-* ok"),
        ("user42 said \"hello 'w' 7\" and left", 'user* said "*" and left'),
        ("don't mask, it's fine", "don't mask, it's fine"),
        ('{"user":"bob","n":12}', '{"user":"*","n":*}'),
        ('an open " quote 5', 'an open " quote *'),
        ("delta -5 or +7 or a-5", "delta * or * or a-*"),
        ("", ""),
        ("x=deadbeef-1 abcdefab-12", "x=deadbeef-* abcdefab-*"),
        ("abcdefab-1234-abcd-abcd-abcdefabcdef.", "*."),
        ("1.5ms2 +x -", "*ms* +x -"),
        ("say \"\" 'a-1' +5", "say \"\" '*' *"),
        ("größe 10 µs", "größe * µs"),
    ],
)
def test_templates(line: str, expected: str) -> None:
    assert template(line) == expected


def test_values_are_frozen() -> None:
    """These numbers are stored in segments: a change here needs a new FINGERPRINT_VERSION."""
    lines = ["took 12ms", "took 7ms", "GET /a/1", ""]
    assert fingerprints(pa.array(lines)).tolist() == FROZEN


FROZEN = [-694176949338495840, -694176949338495840, -3446612648037327738, 3244421341483603138]


def test_slices_of_arrays_and_copies_agree() -> None:
    lines = [f"worker {n} did {'this' if n % 2 else 'that'}" for n in range(50)]
    whole = fingerprints(pa.array(lines))
    assert fingerprints(pa.array(lines).slice(7, 20)).tolist() == whole[7:27].tolist()
    assert len(set(whole.tolist())) == 2


def test_real_logs_collapse_to_few_templates() -> None:
    folder = CORPORA / "loghub"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not on this machine")
    shares = {}
    for path in sorted(folder.glob("*.log")):
        lines = path.read_text(errors="replace").splitlines()
        first, again = fingerprints(pa.array(lines)), fingerprints(pa.array(lines[::-1]))
        assert first.tolist() == again[::-1].tolist()
        shares[path.stem] = len(set(first.tolist())) / len(lines)
    assert len(shares) == 16
    assert sum(shares.values()) / len(shares) < 0.25, shares
