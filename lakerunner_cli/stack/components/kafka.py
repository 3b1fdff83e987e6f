"""Apache Kafka, one node in KRaft mode, from jars of Maven Central.

Without Java or jars the mock broker takes its place and says so: it forgets its messages when it exits. The
files on disk decide between the two, so a restart after the jars have arrived uses the real one.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from lakerunner_cli.command import StackError
from lakerunner_cli.stack import jars, topics
from lakerunner_cli.stack.component import Announce, Component
from lakerunner_cli.stack.java import Java
from lakerunner_cli.stack.ports import HOST, tcp
from lakerunner_cli.stack.site import Site, download_dir

MOCK_NOTICE = (
    "NOTICE: {reason}. Kafka is replaced by a mock broker that FORGETS ALL MESSAGES when it stops; "
    "`lakerunner doctor` says how to get the real one"
)
# a killed broker may register again only when its old session has expired: short, or a restart takes 12 s
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=1000
broker.session.timeout.ms=3000
log.retention.hours=168
log.cleaner.dedupe.buffer.size=8388608
"""
LOG4J = """\
Configuration:
  Appenders:
    Console: {name: out, PatternLayout: {pattern: "%d{ISO8601} %p %m (%c{1})%n"}}
  Loggers:
    Logger: {name: org.apache.kafka.common.config, level: WARN}
    Root: {level: INFO, AppenderRef: {ref: out}}
"""


def prepare(site: Site, announce: Announce) -> None:
    if site.java is None:
        announce(MOCK_NOTICE.format(reason="there is no Java"))
        return
    cache = download_dir(site.settings)
    try:
        if to_fetch := jars.find_damaged(jars.kafka_jars(), cache):
            jars.fetch(to_fetch, cache, site.settings.maven_url, announce)
    except (OSError, StackError) as error:
        announce(MOCK_NOTICE.format(reason=str(error)))
        return
    _write_configuration(site)
    if not (_data(site) / "meta.properties").is_file():
        _format(site, site.java)


def command(site: Site) -> list[str]:
    if not is_real(site) or site.java is None:
        return [sys.executable, "-m", "lakerunner_cli.stack.mock_broker", str(site.ports["kafka"])]
    memory = [
        f"-Xmx{site.settings.kafka_memory_mb}m",
        "-Xms128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
    ]
    return [*_java(site, site.java, memory), "kafka.Kafka", str(_home(site) / "server.properties")]


def is_real(site: Site) -> bool:
    return site.java is not None and not jars.find_absent(jars.kafka_jars(), download_dir(site.settings))


def probe(site: Site, since: float) -> bool:  # noqa: ARG001 - one signature for all
    return tcp(site.ports["kafka"]) and topics.broker_answers(site.settings.kafka_bootstrap)


def finish(site: Site) -> None:
    if is_real(site):
        topics.create_topics(site.settings.kafka_bootstrap)


def address(site: Site) -> str:
    return f"{HOST}:{site.ports['kafka']}" + ("" if is_real(site) else " (mock)")


def _home(site: Site) -> Path:
    return site.paths.root / "kafka"


def _data(site: Site) -> Path:
    return _home(site) / "data"


def _write_configuration(site: Site) -> None:
    text = PROPERTIES.format(
        host=HOST, port=site.ports["kafka"], controller=site.ports["kafka_controller"], data=_data(site)
    )
    (_home(site) / "server.properties").write_text(text)
    (_home(site) / "log4j2.yaml").write_text(LOG4J)


def _format(site: Site, java: Java) -> None:
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    properties = str(_home(site) / "server.properties")
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--config", properties]
    made = subprocess.run(
        [*_java(site, java, ["-Xmx128m", "-XX:TieredStopAtLevel=1"]), *tool],
        env=site.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    site.paths.log("kafka").write_text(made.stdout + made.stderr)
    if made.returncode != 0:
        raise StackError(f"formatting {_data(site)} failed; see {site.paths.log('kafka')}")


def _java(site: Site, java: Java, options: list[str]) -> list[str]:
    cache = download_dir(site.settings)
    classpath = ":".join(str(jar.in_cache(cache)) for jar in jars.kafka_jars())
    logging = f"-Dlog4j2.configurationFile={_home(site) / 'log4j2.yaml'}"
    return [str(java.executable), *options, logging, "-cp", classpath]


KAFKA = Component(
    name="kafka",
    needs=(),
    prepare=prepare,
    command=command,
    probe=probe,
    finish=finish,
    address=address,
)
