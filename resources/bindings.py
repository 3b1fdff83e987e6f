"""Dagster's asset bodies and sensors get these resources.

No other file of this package knows Dagster.
"""

from functools import cached_property
from typing import TYPE_CHECKING, cast

import dagster as dg
from pydantic import ConfigDict

from resources.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from resources.index.contract import PipelineIndex
    from resources.spark import SparkTasks


class Lakerunner(dg.ConfigurableResource["Lakerunner"]):
    """Settings, index and Spark of this process, opened on first use."""

    model_config = ConfigDict(ignored_types=(cached_property,))

    @cached_property
    def settings(self) -> Settings:
        return Settings.load()

    @cached_property
    def index(self) -> "PipelineIndex":
        from resources.index.postgres import PostgresIndex

        return PostgresIndex(self.settings.require("index_dsn"))

    def spark_tasks(self) -> "SparkTasks":
        from resources.spark import SparkTasks

        return SparkTasks(self.settings, session=self._session)

    def _session(self) -> "SparkSession":
        from dagster_pyspark import LazyPySparkResource

        from resources.spark import session_config

        resource = LazyPySparkResource(spark_config=session_config(self.settings))
        return cast("SparkSession", resource.spark_session)
