"""The table of columns is the only place that names them, and says what decoders, writers and pages say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.decode.dispatch import Place, Request, decode
from lakerunner_assets.decode.naming import attribute_of
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.segments.encoding import BLOOM_COLUMNS
from lakerunner_assets.segments.traces import TERM_COLUMNS
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.signals import SIGNALS
from lakerunner_assets.warmup_samples import MOMENT_NS
from resources.lake import metric_values
from resources.lake.columns import ALIASES, COLUMNS, HIST_PREFIX, PREFIX, Filler, Segments, columns_in
from resources.lake.frequency import MINUTE, TEN_SECONDS, rollup_of
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from resources.lake.segment_file import (
    LOG_SORT_ORDER,
    METRIC_SORT_ORDER,
    OVERFLOW_COLUMNS,
    SPAN_SORT_ORDER,
    read_label_map,
)
from resources.lake.timecut import HOUR_NS

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (
    "lakerunner_assets",
    "lakerunner_query",
    "lakerunner_ingress",
    "lakerunner_sampling",
    "lakerunner_cli",
    "resources",
    "sensors",
)
PAGES = {
    Segments.LOGS: "log-segments.md",
    Segments.METRICS: "metric-segments.md",
    Segments.TRACES: "span-segments.md",
    Segments.ROLLUPS: "rollup-segments.md",
}
NOT_COLUMNS = {"slot_5m", "labels"}
"""Sort keys that are computed."""


@dataclass(slots=True)
class Made:
    """Inputs and outputs of one kind of segments."""

    decoded: list[pa.Table] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[Segments, Made]:
    found = {kind: Made() for kind in Segments}
    for signal in Signal:
        folder = tmp_path_factory.mktemp(signal.value)
        mine = found[Segments(signal.value)]
        for number, (name, data) in enumerate(SIGNALS[signal].warm_up_samples()):
            tables = list(_decoded(signal, name, data, number))
            mine.decoded += tables
            if sum(table.num_rows for table in tables):
                path = folder / f"{number}.parquet"
                spec = SIGNALS[signal]
                spec.write(tables, path, SegmentIdentity("o", "c", spec.dataset, MOMENT_NS, "0" * 32))
                mine.files.append(path)
    sources: Sequence[Path] = found[Segments.METRICS].files
    for frequency in (TEN_SECONDS, MINUTE):
        sources = _rolled(sources, frequency, tmp_path_factory.mktemp(str(frequency)))
        found[Segments.ROLLUPS].files += sources
    return found


def _decoded(signal: Signal, name: str, data: bytes, number: int) -> Iterator[pa.Table]:
    request = Request(name, Place(number, 0, MOMENT_NS), DecodeOptions(), 1 << 20)
    with open_payload(data, 1 << 20) as payload:
        for part in decode(payload, request, SIGNALS[signal].decoders()):
            yield part.table


def _rolled(sources: Sequence[Path], frequency_ms: int, folder: Path) -> list[Path]:
    rollup = rollup_of(frequency_ms)
    request = RollupRequest(
        sources, rollup.source_ms, frequency_ms, MOMENT_NS, HOUR_NS, folder, "o", "c", rollup.dataset,
        1 << 30, 64 << 20, str,
    )  # fmt: skip
    return [each.path for each in roll_up(request)]


def plain(kind: pa.DataType) -> pa.DataType:
    """The type as it is in a plain Parquet file: no dictionaries, no names or nullability of members."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(member.name, plain(member.type)) for member in kind])
    return kind


@pytest.mark.parametrize("kind", Segments, ids=lambda kind: kind.value)
def test_columns_of_files_are_in_the_table(kind: Segments, made: dict[Segments, Made]) -> None:
    known = {c.name: plain(c.type) for c in columns_in(kind) if c.is_stored}
    assert made[kind].files
    for path in made[kind].files:
        file = pq.ParquetFile(path)
        attributes = {each.column for each in read_label_map(file.metadata)}
        found = {f.name: plain(f.type) for f in file.schema_arrow if f.name not in attributes}
        assert not [f"{name}: {found[name]}" for name in found if known.get(name) != found[name]], path


@pytest.mark.parametrize(
    "kind", [k for k in Segments if k is not Segments.ROLLUPS], ids=lambda kind: kind.value
)
def test_columns_of_decoders_are_in_the_table(kind: Segments, made: dict[Segments, Made]) -> None:
    known = {c.name: plain(c.type) for c in columns_in(kind, Filler.DECODER, Filler.COMPACTION)}
    for table in made[kind].decoded:
        found = {f.name: plain(f.type) for f in table.schema if attribute_of(f) is None}
        assert not [f"{name}: {found[name]}" for name in found if known.get(name) != found[name]]


@pytest.mark.parametrize("kind", Segments, ids=lambda kind: kind.value)
def test_required_columns_are_in_every_file_without_nulls(kind: Segments, made: dict[Segments, Made]) -> None:
    required = {c.name for c in columns_in(kind) if c.required and c.is_stored}
    always: set[str] | None = None
    for path in made[kind].files:
        table = pq.ParquetFile(path).read()
        whole = {name for name in table.column_names if table.column(name).null_count == 0}
        assert required <= whole, f"{path.name}: {sorted(required - whole)}"
        always = whole if always is None else always & whole
    assert always is not None


def test_a_column_has_one_row_per_kind_of_segments() -> None:
    for kind in Segments:
        names = [c.name for c in columns_in(kind)]
        assert len(names) == len(set(names)), kind
    assert all(c.in_ and c.meaning for c in COLUMNS)


def test_defaults_that_name_a_column_name_one_of_the_same_type() -> None:
    for kind in Segments:
        types = {c.name: c.type for c in columns_in(kind)}
        for each in columns_in(kind):
            if isinstance(each.default, str):
                assert types[each.default] == each.type, each.name


def test_what_writers_and_readers_name_is_in_the_table() -> None:
    names = {kind: {c.name for c in columns_in(kind)} for kind in Segments}
    assert set(LOG_SORT_ORDER) - NOT_COLUMNS - {"service_name"} <= names[Segments.LOGS]
    assert set(METRIC_SORT_ORDER) - NOT_COLUMNS <= names[Segments.METRICS]
    assert set(SPAN_SORT_ORDER) | set(TERM_COLUMNS) <= names[Segments.TRACES]
    assert set(BLOOM_COLUMNS) <= names[Segments.LOGS] | names[Segments.TRACES]
    assert set(metric_values.VALUE_COLUMNS) <= names[Segments.METRICS]
    assert all(set(OVERFLOW_COLUMNS.values()) <= mine for mine in names.values())
    assert {n for n in ALIASES.values() if n.startswith("log_")} <= names[Segments.LOGS]


@pytest.mark.parametrize("kind", Segments, ids=lambda kind: kind.value)
def test_pages_and_the_table_name_the_same_columns(kind: Segments) -> None:
    page = (ROOT / "docs" / "reference" / PAGES[kind]).read_text()
    in_table = {c.name for c in columns_in(kind)}
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    stored = {c.name for c in columns_in(kind) if c.is_stored}
    assert not sorted(stored - words), f"not on {PAGES[kind]}"
    cells = re.findall(r"^\| ([^|]+) \|", page.split("\n## Footer")[0].split("\n## Order")[0], re.MULTILINE)
    on_page = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    on_page = {name for name in on_page if not name.startswith("_")}  # short for names of the table above
    assert not sorted(on_page - in_table), f"on {PAGES[kind]} and not in the table"


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string of a module: constants, parts of f-strings, docstrings, and bytes as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            yield node.lineno, text


@pytest.mark.parametrize("package", PRODUCT)
def test_no_other_module_spells_a_column_of_the_system(package: str) -> None:
    found: list[str] = []
    for path in sorted((ROOT / package).rglob("*.py")):
        if path != ROOT / "resources" / "lake" / "columns.py":
            source = path.read_text()
            lines = [line for line, text in literals(ast.parse(source)) if PREFIX in text]
            lines += [n for n, line in enumerate(source.splitlines(), 1) if PREFIX in line.partition("#")[2]]
            found += [f"{path.relative_to(ROOT)}:{line}" for line in sorted(set(lines))]
    assert not found, "say it in plain words, or import the name from resources/lake/columns.py"


def test_a_spelled_column_would_be_seen() -> None:
    source = f'"""Sorted by `{PREFIX}tid`."""\nname = f"{HIST_PREFIX}{{part}}"\nmark = b"{PREFIX}segment"\n'
    assert sorted(line for line, text in literals(ast.parse(source)) if PREFIX in text) == [1, 2, 3]
