"""Lake and bucket URLs become obstore stores.

Options come from `Settings`, or from the variables a `credentials_ref` names; anything else is the library's
own default chain (instance roles, workload identity). The library's retries are off, see `retry.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from obstore import exceptions as native
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from resources.objects.errors import detail
from resources.settings import Settings, SettingsError, credentials

Backend = LocalStore | S3Store | GCSStore | AzureStore
SCHEMES = ("file", "s3", "gs", "az")
_REMOTE: dict[str, Callable[..., Backend]] = {
    "s3": S3Store.from_url,
    "gs": GCSStore.from_url,
    "az": AzureStore.from_url,
}


def open_backend(url: str, settings: Settings, credentials_ref: str) -> Backend:
    scheme = scheme_of(url)
    if scheme == "file":
        return LocalStore(_local_root(url), mkdir=True)
    options = credentials(credentials_ref) if credentials_ref else _from_settings(scheme, settings)
    try:
        return _REMOTE[scheme](
            url,
            config=options,
            client_options=_client_options(settings, options),
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=settings.store_timeout_s)},
        )
    except (native.BaseError, ValueError) as error:
        raise SettingsError(f"object store URL {url!r}: {detail(error)}") from error


def scheme_of(url: str) -> str:
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise SettingsError(
            f"object store URL {url!r}: expected one of {', '.join(s + '://' for s in SCHEMES)}"
        )
    return scheme


def _local_root(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/"):
        raise SettingsError(f"object store URL {url!r}: expected file:///ABSOLUTE/PATH")
    return Path(unquote(parts.path))


def _from_settings(scheme: str, settings: Settings) -> dict[str, str]:
    if scheme != "s3":
        return {}
    found = {
        "region": settings.s3_region,
        "endpoint": settings.s3_endpoint,
        "access_key_id": settings.s3_access_key_id,
        "secret_access_key": settings.s3_secret_access_key,
    }
    return {name: value for name, value in found.items() if value}


def _client_options(settings: Settings, options: dict[str, str]) -> dict[str, Any]:
    return {
        "timeout": timedelta(seconds=settings.store_timeout_s),
        "connect_timeout": timedelta(seconds=min(10.0, settings.store_timeout_s)),
        "allow_http": options.get("endpoint", "").startswith("http://"),
    }
