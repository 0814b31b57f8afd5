"""An asset that is a release, and a check on it that blocks what comes after.

Tulle runs as a command in an environment of its own: its exit code and its JSON are what is used.
"""

import json
import os
import subprocess
from pathlib import Path

import dagster as dg

TULLE = os.environ.get("TULLE", "tulle")  # or /opt/tulle/bin/tulle
FOLDER = Path(os.environ.get("TULLE_FOLDER", "/data/patients"))


@dg.asset
def release() -> dg.MaterializeResult:
    """Condense the patients; where the verdict on privacy is bad nothing is written."""
    words = [TULLE, "condense", "patients.csv", "-o", "release.parquet", "--k", "20"]
    words += ["--report", "report.html", "--force", "--json"]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True)
    if done.returncode:
        raise dg.Failure(done.stderr)
    verdict = json.loads(done.stdout)["verdict"]
    levels = {about: judged["level"] for about, judged in verdict.items()}
    return dg.MaterializeResult(metadata=levels)


@dg.asset_check(asset=release, blocking=True)
def release_is_verified() -> dg.AssetCheckResult:
    """Nobody touched the file since, and the manifest holds."""
    words = [TULLE, "verify", "release.parquet"]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True)
    return dg.AssetCheckResult(passed=done.returncode == 0, metadata={"said": done.stdout})
