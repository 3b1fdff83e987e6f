"""Pub/Sub and Azure queues over their documented REST interfaces, and the command as a process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType

import httpx
import pytest

from lakerunner_ingress.notifications.queues import pubsub
from lakerunner_ingress.notifications.queues.azure_queue import open_azure_queue
from lakerunner_ingress.notifications.queues.pubsub import google_token, open_pubsub
from lakerunner_ingress.notifications.queues.queue import QueueSetupError, RefusedError, ask, open_client
from resources.settings import Settings
from tests.support.ingress import payloads
from tests.support.ingress.doubles import GOOD
from tests.support.ingress.queue_servers import SAS, SUBSCRIPTION, azure_server, base64_text, pubsub_server
from tests.support.notification_sites import Taker, azure_settings
from tests.support.patience import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration


def test_pubsub_is_waited_for_only_so_long() -> None:
    with pubsub_server() as server:
        server.stall_s = 2 * PATIENCE_S
        queue = open_pubsub(Settings(pubsub_subscription=server.url + SUBSCRIPTION, queue_wait_s=1))
        began = time.monotonic()
        assert queue.receive() == []
        assert time.monotonic() - began < PATIENCE_S
        queue.close()


def test_received_messages_of_pubsub_get_a_longer_deadline() -> None:
    with pubsub_server() as server:
        server.shelf.put(payloads.gcs_message("a"))
        queue = open_pubsub(Settings(pubsub_subscription=server.url + SUBSCRIPTION))
        queue.receive()
        assert server.shelf.messages[0].visible_at - time.monotonic() > 100
        assert [path.rpartition(":")[2] for _, path, _ in server.asked] == ["pull", "modifyAckDeadline"]
        assert "authorization" not in {name.lower() for _, _, headers in server.asked for name in headers}
        queue.close()


def test_a_subscription_that_does_not_exist_is_said() -> None:
    with pubsub_server() as server:
        name = server.url + SUBSCRIPTION.removesuffix("/s") + "/other"
        queue = open_pubsub(Settings(pubsub_subscription=name))
        with pytest.raises(RefusedError, match=r"404.*Resource not found"):
            queue.receive()
        queue.close()


class FakeCredentials:
    valid = False
    token = ""
    refreshed = 0

    def refresh(self, _: object) -> None:
        self.refreshed += 1
        self.token, self.valid = f"token-{self.refreshed}", True


def test_google_gets_a_token_that_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials, asked = FakeCredentials(), []
    modules = {
        name: ModuleType(name)
        for name in ("google.auth", "google.auth.transport.requests", "google.auth.exceptions")
    }
    modules["google.auth"].default = lambda scopes: (asked.append(scopes), (credentials, "p"))[1]  # type: ignore[attr-defined]
    modules["google.auth.transport.requests"].Request = object  # type: ignore[attr-defined]
    modules["google.auth.exceptions"].GoogleAuthError = KeyError  # type: ignore[attr-defined]
    monkeypatch.setattr(pubsub, "import_module", modules.__getitem__)
    with pubsub_server() as server:
        monkeypatch.setattr(pubsub, "GOOGLE", f"{server.url}/v1/")
        queue = open_pubsub(Settings(pubsub_subscription="projects/p/subscriptions/s"))
        queue.receive()
        queue.receive()
        credentials.valid = False
        queue.receive()
        queue.close()
    assert [headers["Authorization"] for _, _, headers in server.asked] == [
        "Bearer token-1",
        "Bearer token-1",
        "Bearer token-2",
    ]
    assert asked == [["https://www.googleapis.com/auth/pubsub"]]


def test_without_google_auth_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    with pytest.raises(QueueSetupError, match="pip install google-auth requests"):
        google_token()


@pytest.mark.parametrize(
    "name",
    [
        "s",
        "projects/p/topics/t",
        "https://evil.example/v1/projects/p/subscriptions/s",
        "projects//subscriptions/s",
    ],
)
def test_an_odd_name_of_a_subscription_is_refused(name: str) -> None:
    with pytest.raises(QueueSetupError, match="expected projects/PROJECT/subscriptions/NAME"):
        open_pubsub(Settings(pubsub_subscription=name))


@pytest.mark.parametrize("wrap", [base64_text, json.dumps, lambda e: base64_text([e])])
def test_azure_messages_are_base64_or_json(wrap: Callable[[object], str]) -> None:
    with azure_server() as server:
        server.shelf.put(wrap(payloads.cloud_event(GOOD)))
        queue = open_azure_queue(azure_settings(server, sas=f"?{SAS}"))
        taker = Taker(queue)
        taker.take()
        queue.close()
    assert taker.producer.keys == [GOOD]
    assert server.shelf.messages == []


def test_a_wrong_sas_token_is_said_and_no_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with azure_server() as server, caplog.at_level("DEBUG"):
        queue = open_azure_queue(azure_settings(server, sas=SAS.replace("sig=a", "sig=secret")))
        taker = Taker(queue)
        taker.take()
        with pytest.raises(RefusedError, match=r"403.*AuthenticationFailed") as refused:
            queue.receive()
        queue.close()
    assert "AuthenticationFailed" in caplog.text
    assert "secret" not in caplog.text + str(refused.value)


def test_a_message_of_azure_that_somebody_else_has_by_now_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    with azure_server() as server:
        queue = open_azure_queue(azure_settings(server))
        server.shelf.put(base64_text(payloads.blob("a")))
        server.shelf.put(base64_text(payloads.blob("b")))
        mine = queue.receive()
        server.shelf.messages[0].receipt = "another's"
        queue.acknowledge(mine)
        assert [message.receipt for message in server.shelf.messages] == ["another's"]
        queue.close()
    assert "MessageNotFound" in caplog.text


def test_a_redirect_is_not_followed() -> None:
    """It would carry the SAS token elsewhere."""
    with open_client() as opened:
        assert not opened.follow_redirects
    moved = httpx.MockTransport(lambda _: httpx.Response(302, headers={"Location": "http://elsewhere/"}))
    with httpx.Client(transport=moved) as mocked, pytest.raises(RefusedError, match="answered 302"):
        ask(mocked, "test", "GET", "http://queue/")


def test_the_command_takes_one_round_and_stops_on_sigterm(postgres_server: str) -> None:
    """As a process of its own, with a queue that never answers to show that it stops while it waits."""
    with pubsub_server() as server:
        server.stall_s = 30.0
        environment = {
            "LAKERUNNER_DATA_DIR": "/nonexistent",
            "LAKERUNNER_INDEX_DSN": postgres_server,
            "LAKERUNNER_KAFKA_BOOTSTRAP": "127.0.0.1:1",
            "LAKERUNNER_PUBSUB_SUBSCRIPTION": server.url + SUBSCRIPTION,
            "LAKERUNNER_QUEUE_WAIT_S": "2",
        }
        command = [sys.executable, "-W", "ignore", "-m", "lakerunner_cli.main", "notifications", "pubsub"]
        once = subprocess.run(
            [*command, "--once"],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert (once.returncode, "0 messages" in once.stderr) == (0, True), once.stderr
        before = len(server.asked)
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: len(server.asked) > before, "a request")
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
