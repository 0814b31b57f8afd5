"""The session that Tulle works on: whether it is safe, and whether all workers are alike."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from tulle import __version__
from tulle.errors import DataError, PrivacyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("numpy", "numba", "polars", "scikit-learn", "scipy")
_ON_DISK = ("spark.io.encryption.enabled",)
_ON_THE_WIRE = ("spark.authenticate", "spark.network.crypto.enabled")
_SETTINGS = {
    "spark.io.encryption.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_SAME_BYTES = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch",
)
_ONE_THREAD = ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def open_session(master: str | None) -> SparkSession:
    """Return the session that is there, else a new one whose files are encrypted."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is not None:
        return found
    builder = SparkSession.builder.appName("tulle")
    if master is not None:
        builder = builder.master(master)
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    for name in _ONE_THREAD:  # a core has one worker
        builder = builder.config(f"spark.executorEnv.{name}", "1")
    if master is not None and master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    try:
        return builder.getOrCreate()
    except (PySparkException, FileNotFoundError) as error:
        raise DataError(
            f"Spark did not start ({type(error).__name__}): it needs Java 17 or later (JAVA_HOME, "
            "or java on the path) and, with --master, a cluster at that address"
        ) from None


@contextmanager
def order_free(session: SparkSession) -> Iterator[None]:
    """Let Spark keep what was done when a lost block comes again with its records in another order.

    Spark 4.1 and later compare the bytes of such blocks and give up when a part that rests on them
    was returned already. Cells sort their records, and the whole is verified in the end.
    """
    before = {name: session.conf.get(name, None) for name in _SAME_BYTES}
    for name in _SAME_BYTES:
        session.conf.set(name, "false")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


def missing_encryption(session: SparkSession) -> list[str]:
    """Return the settings that are off, without which records lie or travel in the clear."""
    local = session.conf.get("spark.master", "").startswith("local")
    wanted = _ON_DISK if local else _ON_DISK + _ON_THE_WIRE
    return [name for name in wanted if session.conf.get(name, "false").lower() != "true"]


def refuse_unencrypted(session: SparkSession, accepted: str) -> list[str]:
    """Return the settings that are off; raise for them unless somebody took the risk."""
    missing = missing_encryption(session)
    if missing and not accepted:
        raise PrivacyError(
            f"Spark would write records to disk or send them in the clear: set {', '.join(missing)}"
            " to true, or take the risk with a reason, which goes into the manifest "
            "(accept_risk, --accept-risk)"
        )
    return missing


def versions() -> dict[str, str]:
    """Return what the bytes of a release depend on."""
    found = {"python": platform.python_version(), "tulle": __version__}
    return found | {package: version(package) for package in _PACKAGES}


def refuse_other_versions(found: list[dict[str, str]]) -> None:
    """Raise if a worker has other versions than the driver."""
    own = versions()
    other = {name for worker in found for name in own if worker.get(name) != own[name]}
    if other:
        raise DataError(
            f"workers have other versions of {', '.join(sorted(other))} than the driver: install "
            "the same on all machines"
        )
