"""Amazon SQS, or a look-alike at `sqs_endpoint`, through boto3 (loaded only here).

At AWS the credentials are those of boto3's default chain: environment, profile, or the role of the machine or
pod. A look-alike gets `s3_access_key_id` and `s3_secret_access_key`, when they are set, as its S3 side does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from lakerunner_ingress.notifications.queues.queue import QueueMessage, QueueSetupError, QueueUnavailableError
from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.notifications.shapes.aws import parse_aws
from resources.settings import Settings

log = logging.getLogger(__name__)
MOST = 10
MAX_WAIT_S = 20
MAX_HOLD_S = 43_200
_REGION = re.compile(r"https://sqs\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/")


class SqsQueue:
    """The queue."""

    name = "sqs"
    idle_s = 0.0

    def __init__(self, client: Any, url: str, wait_s: int, hold_s: int) -> None:
        self._client = client
        self._url = url
        self._wait_s = wait_s
        self.hold_s = float(hold_s)
        self.shape: Shape = parse_aws

    def receive(self) -> list[QueueMessage]:
        answer = _call(
            self._client.receive_message,
            QueueUrl=self._url,
            MaxNumberOfMessages=MOST,
            WaitTimeSeconds=self._wait_s,
            VisibilityTimeout=int(self.hold_s),
        )
        return [
            QueueMessage(m["MessageId"], m["ReceiptHandle"], m["Body"].encode(errors="surrogatepass"))
            for m in answer.get("Messages", [])
        ]

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        for entries in _entries(messages):
            self._warn(_call(self._client.delete_message_batch, QueueUrl=self._url, Entries=entries))

    def release(self, messages: Sequence[QueueMessage]) -> None:
        for entries in _entries(messages):
            now = [entry | {"VisibilityTimeout": 0} for entry in entries]
            self._warn(_call(self._client.change_message_visibility_batch, QueueUrl=self._url, Entries=now))

    def close(self) -> None:
        self._client.close()

    def _warn(self, answer: dict[str, Any]) -> None:
        """Log failures: a message that was not deleted comes back, which does no harm."""
        for failed in answer.get("Failed", []):
            log.warning(
                "sqs: a message was not updated and will come back: %s: %s",
                failed.get("Code"),
                failed.get("Message", ""),
            )


def open_sqs(settings: Settings) -> SqsQueue:
    url = settings.require("sqs_queue_url")
    if not 0 < settings.sqs_visibility_s <= MAX_HOLD_S:
        raise QueueSetupError(f"sqs_visibility_s {settings.sqs_visibility_s}: expected 1 to {MAX_HOLD_S}")
    wait_s = max(0, min(MAX_WAIT_S, settings.queue_wait_s))
    return SqsQueue(_client(settings, url, wait_s), url, wait_s, settings.sqs_visibility_s)


def region(url: str, otherwise: str) -> str:
    """Return the region in a queue's address: a request signed for another one is refused.

    >>> region("https://sqs.eu-west-1.amazonaws.com/1/q", "x"), region("http://mq:9324/1/q", "x")
    ('eu-west-1', 'x')
    """
    found = _REGION.match(url)
    return found[1] if found else otherwise


def _client(settings: Settings, url: str, wait_s: int) -> Any:
    boto3, config = _load("boto3"), _load("botocore.config")
    options: dict[str, Any] = {"region_name": region(url, settings.s3_region)}
    if settings.sqs_endpoint:
        options["endpoint_url"] = settings.sqs_endpoint
        if settings.s3_access_key_id:
            options["aws_access_key_id"] = settings.s3_access_key_id
            options["aws_secret_access_key"] = settings.s3_secret_access_key
    limits = config.Config(
        connect_timeout=5, read_timeout=wait_s + 10, retries={"mode": "standard", "max_attempts": 3}
    )
    return boto3.client("sqs", config=limits, **options)


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise QueueSetupError("SQS needs boto3: pip install boto3") from error


def _entries(messages: Sequence[QueueMessage]) -> Iterable[list[dict[str, Any]]]:
    """Split messages into requests of ten, the limit of SQS."""
    for start in range(0, len(messages), MOST):
        chunk = messages[start : start + MOST]
        yield [{"Id": str(n), "ReceiptHandle": message.handle} for n, message in enumerate(chunk)]


def _call(operation: Callable[..., Any], **arguments: Any) -> Any:
    errors = import_module("botocore.exceptions")
    try:
        return operation(**arguments)
    except (errors.ClientError, errors.BotoCoreError) as error:
        raise QueueUnavailableError(f"{type(error).__name__}: {error}") from error
