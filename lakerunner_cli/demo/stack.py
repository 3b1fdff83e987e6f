"""The demo's use of the local stack: fetch what is missing, start it unless it runs."""

from __future__ import annotations

from collections.abc import Callable

from lakerunner_cli.stack import jars
from lakerunner_cli.stack.errors import StackError
from lakerunner_cli.stack.lifecycle import detach
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.site import download_dir
from lakerunner_cli.stack.state import is_running
from resources.settings import Settings, process_environment

Announce = Callable[[str], None]


def fetch_parts(settings: Settings, announce: Announce) -> None:
    """Kafka's jars, ahead of the start so that the two are timed apart; failing is the stack's to judge."""
    cache = download_dir(settings)
    missing = jars.absent(jars.kafka_jars(), cache)
    if not missing:
        return
    try:
        jars.fetch(missing, cache, settings.maven_url, announce)
    except (OSError, StackError) as error:
        announce(f"download failed, the stack will try without: {error}")


def start_stack(settings: Settings, announce: Announce) -> Settings:
    """The settings of a running stack on this data directory."""
    if is_running(StackPaths(settings.data_dir)):
        announce(f"using the stack that runs on {settings.data_dir}")
    else:
        detach(settings, [], announce)
    return Settings.load(process_environment() | {"LAKERUNNER_DATA_DIR": str(settings.data_dir)})
