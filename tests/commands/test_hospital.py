"""A messy hospital export, from the file to the release: what leaked once does not leak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from benchmarks.columns_hospital import LABELS, hospital
from tulle.cli import tulle
from tulle.releases import read_manifest

PERSON = "Patientennummer"
K = 10
NAMING = [name for name, label in LABELS.items() if label.split()[1] in ("id", "p", "n", "id/q")]
MONEY = ("Kosten_DRG", "Kosten_Medikamente", "Kosten_Zimmer")


class Trial(NamedTuple):
    source: pl.DataFrame
    control: pl.DataFrame  # a tenth of the records, kept apart
    release: pl.DataFrame
    inspected: dict[str, dict[str, str]]
    manifest: dict[str, dict[str, object]]


def run(*arguments: object) -> dict[str, object]:
    result = CliRunner().invoke(tulle, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def as_text(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, infer_schema=False, separator=";")


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    folder = tmp_path_factory.mktemp("hospital")
    table = hospital(np.random.default_rng(16), 600)
    control, source = table.head(table.height // 10), table.slice(table.height // 10)
    path, policy, output = (folder / name for name in ("h.csv", "h.toml", "release.csv"))
    source.write_csv(path, separator=";")
    found = run("inspect", path, "-o", policy, "--json")
    run("condense", path, "-o", output, "--policy", policy, "--k", K, "--seed", 1, "--json")
    rows = {row["name"]: row for row in found["columns"]}  # type: ignore[index,attr-defined]
    return Trial(source, control, as_text(output), rows, read_manifest(output).columns)


def euros(texts: pl.Series) -> pl.Series:
    plain = texts.str.replace_all(".", "", literal=True).str.replace(" €", "", literal=True)
    return plain.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False).drop_nulls()


def test_each_column_has_a_kind_a_role_an_action_and_a_reason(trial: Trial) -> None:
    assert list(trial.inspected) == trial.source.columns
    for row in trial.inspected.values():
        assert all(row[key] for key in ("name", "kind", "role", "action", "reason"))


def test_numbers_of_cases_and_people_stay_out_with_reasons(trial: Trial) -> None:
    assert set(trial.release.columns) == set(LABELS) - (set(NAMING) - {PERSON})
    new = trial.release[PERSON]  # cases of one patient stay together, under a new number
    assert 1 < new.len() / new.n_unique() < 3
    for name in set(NAMING) - {PERSON}:
        assert trial.manifest[name]["reason"] == trial.inspected[name]["reason"]
        assert trial.manifest[name]["to_keep_it"]


def test_amounts_are_numbers_and_come_back_as_money(trial: Trial) -> None:
    for name in MONEY:
        texts = trial.release[name].drop_nulls()
        texts = texts.filter(texts != "k.A.")
        assert texts.str.contains(r"^[0-9]{1,3}(\.?[0-9]{3})*,[0-9]{2} €$").all()


@pytest.mark.parametrize("name", ["Kosten_DRG", "Kosten_Medikamente"])
def test_amounts_of_one_patient_come_out_no_more_often_than_those_of_strangers(
    trial: Trial, name: str
) -> None:
    hits = []
    for table in (trial.source, trial.control):
        counts = euros(table[name]).value_counts(name="n")
        single = counts.filter(pl.col("n") == 1)[name]
        hits.append(float(euros(trial.release[name]).is_in(single.implode()).sum()) / len(single))
    assert hits[0] <= 1.5 * hits[1] + 0.05


def test_rare_diagnoses_are_merged_and_counts_are_not_exact(trial: Trial) -> None:
    held = dict(
        trial.source.group_by("Hauptdiagnose").agg(pl.col("Patientennummer").n_unique()).iter_rows()
    )
    assert min(held.values()) < K
    released = trial.release["Hauptdiagnose"]
    assert all(held.get(value, K) >= K for value in released.unique())
    assert "other" in released
    assert "merged" not in trial.manifest["Hauptdiagnose"]
    before, after = (
        t["Hauptdiagnose"].value_counts(sort=True) for t in (trial.source, trial.release)
    )
    assert before["count"].to_list() != after["count"].to_list()


@pytest.mark.parametrize("name", ["Kosten_DRG", "Kosten_Medikamente"])
def test_the_lowest_amount_of_one_patient_is_not_a_heap(trial: Trial, name: str) -> None:
    released = euros(trial.release[name])
    for low in (euros(trial.source[name]).min(), released.min()):
        assert (released == low).mean() < 0.01  # type: ignore[operator]


def test_sentinels_and_answers_are_never_averaged(trial: Trial) -> None:
    crp = trial.release["CRP"].str.replace(",", ".", literal=True).cast(pl.Float64)
    assert not crp.is_between(600, 9_998).any()
    assert (crp == 9999).mean() == pytest.approx(0.06, abs=0.04)
    answers = {"1", "2", "3", "4", "5", "9"}
    assert set(trial.release["Zufriedenheit"].unique()) <= answers
    assert set(trial.release["Frage_7"].unique()) <= answers
    assert set(trial.release["Score"].unique()) <= {"-99", "0", "1", "2", "3", "4"}
    assert set(trial.release["Pflegegrad"].unique()) <= {str(i) for i in range(6)}


def test_dates_of_birth_come_back_in_the_commonest_form(trial: Trial) -> None:
    born = trial.release["Geburtsdatum"].drop_nulls()
    assert born.str.contains(r"^[0-9]{2}\.[0-9]{2}\.(19|20)[0-9]{2}$").all()
    years = born.str.tail(4).cast(pl.Int64)
    assert years.min() >= 1930  # type: ignore[operator]
    assert years.max() <= 2020  # type: ignore[operator]


@pytest.mark.slow
def test_without_a_policy_the_same_columns_are_released(trial: Trial, tmp_path: Path) -> None:
    path, output = tmp_path / "h.csv", tmp_path / "r.csv"
    trial.source.write_csv(path, separator=";")
    found = run("condense", path, "-o", output, "--k", K, "--seed", 1, "--json")
    assert as_text(output).columns == trial.release.columns
    left_out = {row["column"]: row for row in found["left_out"]}  # type: ignore[attr-defined]
    assert set(left_out) == set(NAMING) - {PERSON}
    assert all(row["reason"] and row["to_keep_it"] for row in left_out.values())
