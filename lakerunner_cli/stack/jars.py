"""Downloads Kafka's jars, which a checked-in manifest lists, from Maven Central.

Files arrive under a temporary name and get their real one only after their checksum was verified, so a file
in the cache is right or absent, and an interrupted download continues with the files that are missing.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from lakerunner_cli.command import StackError

MB = 1_000_000
TRIES = 3
PARALLEL = 6


@dataclass(frozen=True, slots=True)
class Jar:
    path: str
    sha256: str
    size: int

    def in_cache(self, cache: Path) -> Path:
        return cache / "maven" / self.path


def kafka_jars() -> tuple[Jar, ...]:
    manifest = json.loads(files("lakerunner_cli.stack").joinpath("kafka_jars.json").read_text())
    return tuple(Jar(**entry) for entry in manifest["jars"])


def find_absent(jars: Iterable[Jar], cache: Path) -> list[Jar]:
    """Return missing jars by name and size, the check before every start of the broker."""
    return [jar for jar in jars if not _has_size(jar.in_cache(cache), jar.size)]


def find_damaged(jars: Iterable[Jar], cache: Path) -> list[Jar]:
    """Return missing or damaged jars by checksum; they have to be fetched (again)."""
    return [jar for jar in jars if not has_checksum(jar.in_cache(cache), jar)]


def has_checksum(path: Path, jar: Jar) -> bool:
    return _has_size(path, jar.size) and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256


def fetch(jars: list[Jar], cache: Path, maven_url: str, announce: Callable[[str], None]) -> None:
    """Download in parallel; stop at the first failure, but keep the finished files."""
    total = sum(jar.size for jar in jars)
    announce(f"downloading {len(jars)} jars of Apache Kafka ({total / MB:.0f} MB) from {maven_url}")
    begin, progress = time.monotonic(), Progress(total, announce)
    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        futures = {pool.submit(_fetch_one, jar, cache, maven_url): jar for jar in jars}
        for future in as_completed(futures):
            if (error := future.exception()) is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                raise StackError(f"{futures[future].path} could not be downloaded ({error})")
            progress.add(futures[future].size)
    announce(f"download took {time.monotonic() - begin:.1f} s, cached in {cache / 'maven'}")


class Progress:
    """Announces a quarter, half, three quarters and the whole."""

    def __init__(self, total: int, announce: Callable[[str], None]) -> None:
        self._total, self._announce, self._done, self._told = total, announce, 0, 0

    def add(self, size: int) -> None:
        self._done += size
        if self._done * 4 // self._total > self._told:
            self._told = self._done * 4 // self._total
            self._announce(f"downloaded {self._done / MB:.0f} of {self._total / MB:.0f} MB")


def _fetch_one(jar: Jar, cache: Path, maven_url: str) -> None:
    target = jar.in_cache(cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, TRIES + 1):
        try:
            _download(f"{maven_url.rstrip('/')}/{jar.path}", target, jar)
        except (OSError, StackError):
            if attempt == TRIES:
                raise
            time.sleep(0.5 * attempt)
        else:
            return


def _download(url: str, target: Path, jar: Jar) -> None:
    import httpx

    aside = target.with_name(f"{target.name}.part")
    try:
        with (
            httpx.stream("GET", url, timeout=30, follow_redirects=True, verify=ssl_context()) as response,
            aside.open("wb") as out,
        ):
            response.raise_for_status()
            for chunk in response.iter_bytes():
                out.write(chunk)
    except httpx.HTTPError as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    if not has_checksum(aside, jar):
        raise StackError(f"{url} has another checksum than the manifest; expected {jar.sha256}")
    aside.replace(target)


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)


def ssl_context() -> ssl.SSLContext:
    """Trust the system's certificates and the well-known ones.

    A network that inspects TLS has its own certificate in the system's store; a bare container has no store.
    """
    import certifi

    context = ssl.create_default_context()
    for bundle in (certifi.where(), *SYSTEM_BUNDLES):
        if Path(bundle).is_file():
            context.load_verify_locations(bundle)
    return context
