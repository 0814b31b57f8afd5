"""The page about R: what it shows runs, with R and the packages of Debian."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "from_r.R"


@pytest.mark.server
@pytest.mark.slow
def test_r_reads_a_release_of_its_own_survey_with_labels_weights_and_codebook(
    tmp_path: Path,
) -> None:
    if not (rscript := shutil.which("Rscript")):
        raise RuntimeError("R is not installed: run scripts/test-tools")
    command = Path(sys.executable).with_name("tulle")
    run = subprocess.run(
        [rscript, "--vanilla", EXAMPLE], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "TULLE": str(command)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert re.search(r"male female\s+1\s+2", run.stdout)  # labels of values, as R made them
    assert "sex Sex" in run.stdout  # and of columns, from the codebook
    totals = re.findall(r"region(\w+)\s+([0-9.]+)", run.stdout)
    assert len(totals) == 6
    original, release = (dict(totals[at : at + 3]) for at in (0, 3))
    for region, total in original.items():
        assert float(release[region]) == pytest.approx(float(total), rel=0.02)
    assert "95 of 100 cover the original" in run.stdout
