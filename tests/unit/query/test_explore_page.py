"""The Explore page as a browser gets it: complete, its own, and with nothing a log line could run in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from lakerunner_query.api import explore

STATIC = Path(explore.__file__).parent / "static"
SCRIPTS = sorted(path.name for path in STATIC.glob("*.js"))
SINKS = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc")
IMPORTS = re.compile(r'from "([^"]+)"')
NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.fixture(scope="module")
def browser() -> Iterator[TestClient[Any]]:
    with TestClient(Litestar([explore.page, explore.asset])) as client:
        yield client


def test_every_file_the_page_names_is_served_with_its_type(browser: TestClient[Any]) -> None:
    page = browser.get("/")
    assert page.headers["content-type"].startswith("text/html")
    named = set(re.findall(r'(?:src|href)="(/explore/[^"]+)"', page.text))
    named |= {
        f"/explore/{name.removeprefix('./')}" for file in SCRIPTS for name in IMPORTS.findall(text(file))
    }
    assert {f"/explore/{name}" for name in SCRIPTS} <= named
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for url in named:
        found = browser.get(url)
        assert found.status_code == 200, url
        assert found.headers["content-type"].startswith(kinds[Path(url).suffix])


def test_the_headers_leave_a_hostile_line_nothing_to_run_in(browser: TestClient[Any]) -> None:
    for url in ("/", "/explore/explore.js"):
        headers = browser.get(url).headers
        policy = dict(
            part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_no_inline_script_style_or_handler(browser: TestClient[Any]) -> None:
    page = browser.get("/").text
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    assert all("src=" in attributes and not body.strip() for attributes, body in scripts)
    assert scripts
    assert not re.search(r"<style|\sstyle=|\son[a-z]+\s*=|javascript:", page)


@pytest.mark.parametrize("name", [path.name for path in sorted(STATIC.iterdir())])
def test_nothing_comes_from_elsewhere(name: str) -> None:
    content = text(name).replace(NAMESPACE, "")
    assert not re.search(r"https?://|[\"'(]//|@import|url\(", content)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_build_text_and_never_markup(name: str) -> None:
    assert not SINKS.search(text(name))
    assert len(text(name).splitlines()) <= 150


def test_the_key_ends_with_the_tab() -> None:
    assert not any("localStorage" in text(name) or "cookie" in text(name) for name in SCRIPTS)


@pytest.mark.parametrize("name", ["nothing.js", "..%2fexplore.py", "%2e%2e%2fapp.py", "__init__.py"])
def test_only_its_own_files(browser: TestClient[Any], name: str) -> None:
    assert browser.get(f"/explore/{name}").status_code == 404


def text(name: str) -> str:
    return (STATIC / name).read_text()
