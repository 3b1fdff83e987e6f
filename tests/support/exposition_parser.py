"""A strict reader of Prometheus' text format: what it does not know is an error."""

from __future__ import annotations

import re

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')
_TYPES = {"counter", "gauge", "histogram", "untyped"}
_PLAIN = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
Labels = frozenset[tuple[str, str]]


def parse(text: str) -> dict[tuple[str, Labels], float]:
    """Samples by (name, labels). Families are contiguous and typed, series unique, histograms cumulative."""
    assert text.endswith("\n")
    types: dict[str, str] = {}
    samples: dict[tuple[str, Labels], float] = {}
    order: list[str] = []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"two types: {name}"
            assert kind in _TYPES, line
            types[name] = kind
            continue
        found = _SAMPLE.fullmatch(line)
        assert found, f"not a sample: {line!r}"
        name, labels, value = found.group(1), _labels(found.group(2) or ""), float(found.group(3))
        assert (name, labels) not in samples, f"twice: {line}"
        samples[name, labels] = value
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        family = family if types.get(family) == "histogram" else name
        assert family in types, f"no type: {line}"
        if not order or order[-1] != family:
            assert family not in order, f"scattered: {family}"
            order.append(family)
    _check_histograms(samples)
    return samples


def _labels(text: str) -> Labels:
    found, at = [], 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, f"not labels: {text!r}"
        value = re.sub(r"\\[\\\"n]", lambda escape: _PLAIN[escape.group()], match.group(2))
        found.append((match.group(1), value))
        at = match.end()
    assert len(dict(found)) == len(found)
    return frozenset(found)


def _check_histograms(samples: dict[tuple[str, Labels], float]) -> None:
    last: dict[tuple[str, Labels], float] = {}
    for (name, labels), value in samples.items():
        if not name.endswith("_bucket"):
            continue
        key = (name, frozenset(pair for pair in labels if pair[0] != "le"))
        assert value >= last.get(key, 0), f"not cumulative: {name}"
        last[key] = value
    for (name, labels), value in last.items():
        assert samples[name.replace("_bucket", "_count"), labels] == value
