"""What the documentation may claim: links lead somewhere, commands parse, pages equal the code."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from lakerunner_cli.main import _parser
from resources.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/README.md")
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in TOP)])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(
    r"""(?:^(?:\$ )?|\$\(|(?:&&|\|\||;) *)(lakerunner\b(?:"(?:\\.|[^"\\])*"|'[^']*'|[^|)>&;#\n"'])*)""",
    re.MULTILINE,
)
"""A command up to the end of its part of the line; in quotes, statements may hold what ends it elsewhere."""
SHELL = {"bash", "console", "sh"}


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def load(path: Path) -> ModuleType:
    """A script that lies beside the page it writes."""
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shell_text(page: Path) -> str:
    """All shell blocks of a page, continued lines joined."""
    blocks = [body for kind, body in FENCE.findall(page.read_text()) if kind in SHELL]
    return "\n".join(blocks).replace("\\\n", " ")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return load(DOCS / "reference" / "generate.py")


@pytest.mark.parametrize("name", ["settings.md", "cli.md", "rewriting.md"])
def test_generated_pages_are_what_the_code_says(generator: ModuleType, name: str) -> None:
    found = (DOCS / "reference" / name).read_text()
    assert found == generator.PAGES[name](), "run .venv/bin/python docs/reference/generate.py"


def test_every_setting_is_on_the_page() -> None:
    page = (DOCS / "reference" / "settings.md").read_text()
    missing = [n for n in Settings.__dataclass_fields__ if f"`{PREFIX}{n.upper()}`" not in page]
    assert not missing


def test_every_command_is_on_the_page(generator: ModuleType) -> None:
    page = (DOCS / "reference" / "cli.md").read_text()
    names = [name for name, _ in generator.leaves(_parser())]
    assert "admin parked retry" in names
    assert not [name for name in names if f"## `lakerunner {name}`" not in page]


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(FENCE.sub("", page.read_text())) if "://" not in link]
    for link in links:
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{short(page)} links to {link}"
        assert not anchor or anchor in anchors(target), f"{short(page)} links to {link}: no such heading"


def anchors(page: Path) -> set[str]:
    """Of every heading, as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_documented_commands_parse(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = [line.strip() for line in COMMAND.findall(shell_text(page)) if not parses(line)]
    assert not refused, capsys.readouterr().err


def parses(line: str) -> bool:
    """Whether the real parser takes it (`--help` and `--version` end the program, with 0)."""
    try:
        _parser().parse_args(shlex.split(line)[1:])
    except SystemExit as end:
        return end.code == 0
    return True


def test_a_renamed_option_would_be_seen() -> None:
    text = "$ lakerunner status --jsonn && lakerunner up\nX=$(lakerunner admin org list)\n"
    assert [c.strip() for c in COMMAND.findall(text)] == [
        "lakerunner status --jsonn",
        "lakerunner up",
        "lakerunner admin org list",
    ]
    assert not parses("lakerunner status --jsonn")
    assert parses("lakerunner --version")


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"^(?:\$ )?make ([a-z-]+)", shell_text(page), re.MULTILINE)
    named += re.findall(r"`make ([a-z-]+)`", page.read_text())
    assert not set(named) - targets


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_modules_that_are_run_exist(page: Path) -> None:
    for module in re.findall(r"python -m ([\w.]+)", page.read_text()):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), (
            f"{short(page)}: {module}"
        )


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_named_settings_exist(page: Path) -> None:
    for name in re.findall(r"\bLAKERUNNER_([A-Z0-9_]+[A-Z0-9])\b", page.read_text()):
        assert name.startswith("CREDENTIALS_") or name.lower() in Settings.__dataclass_fields__, name


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_named_files_exist(page: Path) -> None:
    roots = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")} - {"build", "dist"}
    made = set(re.findall(r"^# new file: (\S+)$", page.read_text(), re.MULTILINE))  # by the toy of a recipe
    for text in INLINE.findall(FENCE.sub("", page.read_text())):
        if re.fullmatch(r"[\w./-]+\.(py|md|sql|toml|yaml|json|binpb)", text) and text.split("/")[0] in roots:
            assert text in made or (ROOT / text).exists(), f"{short(page)} names {text}"


def test_every_endpoint_is_documented() -> None:
    from lakerunner_ingress.app import create_app as ingress
    from lakerunner_query.app import create_app as query_api
    from resources.index.memory import MemoryIndex
    from resources.kafka.producer import Producer

    page = (DOCS / "reference" / "http-api.md").read_text()
    settings = Settings(internal_token="t")
    apps = [query_api(settings, MemoryIndex()), ingress(settings, MemoryIndex(), Producer("127.0.0.1:1"))]
    paths = {route.path for app in apps for route in app.routes}
    assert "/api/v1/notifications/s3" in paths
    assert not [p for p in sorted(paths) if not p.startswith("/schema/") and f"{p}`" not in page]


def test_the_sample_is_what_its_script_writes() -> None:
    script = load(DOCS / "sample" / "make_sample.py")
    assert script.TARGET.read_bytes() == script.sample()


def test_every_column_of_a_segment_is_documented() -> None:
    from lakerunner_assets.decode.naming import PREFIXES
    from tests.support.decoding import decode_object

    page = (DOCS / "reference" / "log-segments.md").read_text()
    data = (DOCS / "sample" / "logs.binpb").read_bytes()
    (part,) = decode_object(data, object_id=1, arrival_ns=1, max_bytes=1 << 20, slice_bytes=1 << 20)
    flat = tuple(prefix for prefix in PREFIXES.values() if prefix != "scope_")
    own = [n for n in part.table.column_names if n != "chq_stream" and not n.startswith(flat)]
    assert not [name for name in own if f"`{name}`" not in page]


def test_every_decision_is_listed() -> None:
    listed = (DOCS / "decisions" / "index.md").read_text()
    records = sorted(DOCS.glob("decisions/[0-9]*.md"))
    assert [record.name[:4] for record in records] == [f"{n:04d}" for n in range(1, len(records) + 1)]
    for record in records:
        text = record.read_text()
        assert f"({record.name})" in listed
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences")), record.name
