"""A DAG that makes a release every month and stops where the verdict on privacy is bad.

Tulle runs as a command in an environment of its own: its exit code is what Airflow looks at.
"""

from __future__ import annotations

import os
from datetime import datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

TULLE = os.environ.get("TULLE", "tulle")  # or /opt/tulle/bin/tulle
FOLDER = os.environ.get("TULLE_FOLDER", "/data/patients")

with DAG("release_patients", start_date=datetime(2026, 1, 1), schedule="@monthly", catchup=False):
    condense = BashOperator(
        task_id="condense",
        cwd=FOLDER,
        bash_command=f"{TULLE} condense patients.csv -o release.parquet --k 20 "
        "--report report.html --force --json > verdict.json",
    )
    verify = BashOperator(
        task_id="verify", cwd=FOLDER, bash_command=f"{TULLE} verify release.parquet"
    )
    condense >> verify
