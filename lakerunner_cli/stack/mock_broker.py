"""A broker for machines without Java or network: librdkafka's mock cluster in a process of its own.

It speaks the protocol to other processes but forgets everything on exit and picks its own port, so this
process forwards the port that the stack promised. It has no topic administration: topics exist as soon as a
client produces to them or requests them.
"""

from __future__ import annotations

import asyncio
import sys

from lakerunner_cli.stack.ports import HOST
from lakerunner_cli.stack.topics import TOPICS

CHUNK = 1 << 16


def main(port: int) -> None:
    from confluent_kafka import Producer

    cluster = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    broker = next(iter(cluster.list_topics(timeout=10).brokers.values()))
    for name in TOPICS:
        cluster.list_topics(name, timeout=10)
    print(f"mock broker on {broker.host}:{broker.port}, promised port {port}", flush=True)
    asyncio.run(_forward(port, broker.port))


async def _forward(promised: int, actual: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(HOST, actual)
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    server = await asyncio.start_server(connected, HOST, promised)
    await server.serve_forever()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
    except ConnectionError:
        return  # one side left: the other is told by closing
    finally:
        target.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
