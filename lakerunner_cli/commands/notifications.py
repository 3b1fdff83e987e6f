"""`lakerunner notifications …`: take notifications from a queue, as a process of its own.

The loop is `lakerunner_ingress.notifications.queues.poll`; the local stack and production run this command.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from lakerunner_cli.command import CommandError
from resources.settings import Settings

NAME = "notifications"
HELP = "Take notifications of new objects from a queue."
QUEUES = {
    "sqs": "take notifications from Amazon SQS: S3 events, also inside SNS or EventBridge (sqs_queue_url)",
    "pubsub": "take notifications of Cloud Storage from a Pub/Sub subscription (pubsub_subscription)",
    "azure-queue": "take Event Grid's blob events from an Azure storage queue (azure_queue_url, "
    "azure_queue_sas_token)",
}


def configure(parser: ArgumentParser) -> None:
    queues = parser.add_subparsers(metavar="QUEUE", required=True)
    for name, text in QUEUES.items():
        queue = queues.add_parser(
            name,
            help=text,
            description=f"{text}. Runs until SIGTERM; a message is deleted only after it is durable.",
        )
        queue.set_defaults(queue=name)
        queue.add_argument(
            "--once",
            action="store_true",
            help="one round, then exit: 1 if a message had to stay in the queue",
        )
        # the command has this option already; people type it last, where only this parser sees it
        queue.add_argument("--data-dir", type=Path, default=SUPPRESS, help=SUPPRESS)


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_ingress.notifications.queues.poll import serve
    from lakerunner_ingress.notifications.queues.queue import QueueSetupError

    try:
        return serve(args.queue, settings, once=args.once)
    except QueueSetupError as error:
        raise CommandError(str(error)) from error
