"""One Spark session on two cores for all tests of this folder."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2,4]").appName("tests")
    settings = {
        "spark.io.encryption.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def sockets() -> Iterator[None]:
    """Close the sockets that Spark leaves open after a failure within the test that caused it."""
    yield
    gc.collect()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    left_open = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings(left_open))
