"""Rows, quotas, copies and the error ledger of a release, and ``tulle estimate`` with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle import (
    DataError,
    GateError,
    ParameterError,
    PrivacyError,
    estimate,
    read_manifest,
    verify_release,
)
from tulle._commands._condensing import Condensing
from tulle._commands._copies import wants_ledger
from tulle._commands._large import refuse_in_blocks
from tulle._commands._options import resolve
from tulle._commands.condense import condense
from tulle.cli import tulle as command_line
from tulle.errors import OutputExists

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table and a release of it with three copies and a ledger."""
    place = tmp_path_factory.mktemp("wages")
    rng = np.random.default_rng(1)
    n = 700
    educ, sex = rng.integers(8, 18, n), rng.choice(["f", "m"], n)
    lwage = 0.1 * educ + 0.2 * (sex == "m") + rng.normal(0.5, 0.5, n)
    ill = np.where(rng.random(n) < 0.2, "yes", "no")
    table = pl.DataFrame({"educ": educ, "sex": sex, "lwage": lwage.round(3), "ill": ill})
    table.write_csv(place / "wages.csv")
    (place / "policy.toml").write_text('[estimates]\nwages = "ols(lwage ~ educ + sex)"\n')
    made(place, "release.csv", copies=3, policy=place / "policy.toml")
    return place


def made(place: Path, name: str, **more: Any) -> pl.DataFrame:
    condense(place / "wages.csv", place / name, k=10, seed=0, audit=False, **more)
    return pl.read_csv(place / name)


def asked(*words: str | Path) -> Any:
    return CliRunner().invoke(command_line, ["estimate", *map(str, words)])


def test_more_rows_or_fewer(folder: Path) -> None:
    assert made(folder, "many.csv", rows="2000").height == 2_000
    assert made(folder, "few.csv", rows=50).height == 50


@pytest.mark.parametrize("target", [None, "ill"])
def test_quotas_by_value(folder: Path, target: str | None) -> None:
    name = f"quotas_{target}.csv"
    found = made(
        folder,
        name,
        rows="ill=yes:300,no:100",
        target=target,
        small_classes="pool" if target else None,
    )
    assert found["ill"].value_counts().sort("ill").rows() == [("no", 100), ("yes", 300)]
    assert found.columns == ["educ", "sex", "lwage", "ill"]
    assert read_manifest(folder / name).parameters["rows"] == "ill=yes:300,no:100"
    assert set(found["ill"].head(40)) == {"yes", "no"}  # in random order


def test_a_quota_of_a_number_and_one_of_too_few_people(folder: Path) -> None:
    assert set(made(folder, "number.csv", rows="educ=12:40")["educ"]) == {12}
    with pytest.raises(PrivacyError, match="k=10"):
        made(folder, "nobody.csv", rows="sex=d:40")
    assert not (folder / "nobody.csv").exists()


@pytest.mark.parametrize("rows", ["ill", "ill=", "ill=yes", "ill=yes:0", "ill=yes:1,yes:2", "-3"])
def test_rows_that_cannot_be_read(folder: Path, rows: str) -> None:
    with pytest.raises(ParameterError, match=r"--rows: must be a number of records, or quotas"):
        made(folder, "rows.csv", rows=rows)


def test_copies_and_ledger_lie_beside_the_release_and_are_in_the_manifest(folder: Path) -> None:
    output = read_manifest(folder / "release.csv").output
    assert [one["file"] for one in output["copies"]] == ["release.2.csv", "release.3.csv"]
    assert output["ledger"]["file"] == "release.csv.ledger.json"
    tables = [pl.read_csv(folder / f"release{n}.csv") for n in ("", ".2", ".3")]
    assert {one.height for one in tables} == {700}
    assert not tables[0].equals(tables[1])
    ledger = json.loads((folder / "release.csv.ledger.json").read_text())
    assert (ledger["copies"], ledger["splits"], ledger["k"]) == (3, 3, 10)
    assert set(ledger["asked"]) == {"ols(lwage ~ educ + sex)"}


def test_estimates_are_measured_where_a_release_is_for_them(folder: Path, tmp_path: Path) -> None:
    def wanted(output: str, policy: str | None = None, **given: Any) -> bool:
        (tmp_path / "policy.toml").write_text(policy or "")
        return wants_ledger(
            output, resolve("condense", Condensing(), tmp_path / "policy.toml", given)
        )

    named = '[estimates]\nwages = "mean(lwage)"\n'
    assert wanted("a.csv", copies=2)
    assert wanted("a.csv", named)
    assert wanted("a.csv", ledger=True)
    assert not wanted("a.csv")
    assert not wanted("a.csv", named, ledger=False)
    assert not wanted("a.csv", "[condense]\nledger = false\n", copies=2)
    assert not wanted("a.csv", named, rows="ill=yes:5,no:5")
    assert not wanted("sqlite:///a.db#t", named)


def test_an_estimate_that_cannot_be_read_is_refused_before_anything_is_made(folder: Path) -> None:
    policy = folder / "wrong.toml"
    policy.write_text('[estimates]\nwages = "ols(wage ~ educ)"\n')
    with pytest.raises(ParameterError, match=r"no column 'wage'.*'lwage'") as refused:
        made(folder, "wrong.csv", ledger=True, policy=policy)
    assert refused.value.option == f"{policy}: [estimates]"
    assert not (folder / "wrong.csv").exists()


def test_an_answer_from_all_copies_covers_the_original(folder: Path) -> None:
    question = "ols(lwage ~ educ + sex)"
    found = estimate(folder / "release.csv", question)
    truth = estimate(pl.read_csv(folder / "wages.csv"), question)
    assert (found["low"] <= truth["estimate"]).all()
    assert (truth["estimate"] <= found["high"]).all()
    alone = estimate(pl.read_csv(folder / "release.csv"), question)["estimate"]
    assert not np.allclose(found["estimate"], alone)


def test_the_command_prints_the_answer(folder: Path) -> None:
    done = asked(folder / "release.csv", "mean(lwage) by sex", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["copies"] == 3
    assert [row["sex"] for row in found["estimates"]] == ["f", "m"]
    for row in found["estimates"]:
        assert row["low"] < row["estimate"] < row["high"]
    wider = json.loads(
        asked(folder / "release.csv", "mean(lwage) by sex", "--json", "--population").stdout
    )
    for one, other in zip(found["estimates"], wider["estimates"]):
        assert other["low"] < one["low"]


def test_the_command_says_what_cannot_be_answered(folder: Path) -> None:
    done = asked(folder / "release.csv", "mean(lwage) where lwage > 3.1")
    assert isinstance(done.exception, GateError)
    assert "cannot be answered from this release: fewer than 20" in str(done.exception)
    made(folder, "plain.csv", rows=50)
    done = asked(folder / "plain.csv", "mean(lwage)")
    assert "no error ledger" in " ".join(done.output.split())


def test_a_total_is_that_of_the_original_though_there_are_more_rows(folder: Path) -> None:
    made(folder, "more.csv", rows=2000)
    (row,) = estimate(folder / "more.csv", "total(educ)").to_dicts()
    truth = pl.read_csv(folder / "wages.csv")["educ"].sum()
    assert row["estimate"] == pytest.approx(truth, rel=0.03)


def test_a_changed_ledger_is_found(folder: Path, tmp_path: Path) -> None:
    for file in folder.glob("release*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert all(row["holds"] for row in verify_release(tmp_path / "release.csv"))
    ledger = tmp_path / "release.csv.ledger.json"
    ledger.write_text(ledger.read_text().replace("1.", "0."))
    rows = {row["check"]: row["holds"] for row in verify_release(tmp_path / "release.csv")}
    assert rows["what lies beside it unchanged"] is False
    with pytest.raises(DataError, match=r"release.csv.ledger.json.*missing or changed"):
        estimate(tmp_path / "release.csv", "mean(lwage)")


@pytest.mark.parametrize("entry", [3, [3], [{"file": "release.2.csv"}]])
def test_a_manifest_that_names_nonsense_is_refused(
    folder: Path, tmp_path: Path, entry: Any
) -> None:
    for file in folder.glob("release*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    beside = tmp_path / "release.csv.manifest.json"
    manifest = json.loads(beside.read_text())
    manifest["output"]["copies"] = entry
    beside.write_text(json.dumps(manifest))
    for ask in (verify_release, lambda path: estimate(path, "mean(lwage)")):
        with pytest.raises(DataError, match="does not say what lies beside it"):
            ask(tmp_path / "release.csv")


def test_what_exists_is_not_replaced_and_a_failed_run_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wages.csv").write_bytes((folder / "wages.csv").read_bytes())
    (tmp_path / "out.2.csv").write_text("mine")
    with pytest.raises(OutputExists, match=r"out.2.csv"):
        made(tmp_path, "out.csv", copies=2)
    (tmp_path / "out.2.csv").unlink()

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr("tulle.releases.manifest.Draft.complete", fail)
    with pytest.raises(OSError, match="no room"):
        made(tmp_path, "out.csv", copies=2)
    assert [file.name for file in tmp_path.iterdir()] == ["wages.csv"]


def test_copies_need_a_file_and_a_sensible_number(folder: Path) -> None:
    with pytest.raises(ParameterError, match="--copies"):
        made(folder, "c.csv", copies=0)
    with pytest.raises(ParameterError, match="at most 100"):
        made(folder, "c.csv", copies=101)
    with pytest.raises(ParameterError, match="choose a file"):
        condense(folder / "wages.csv", f"sqlite:///{folder}/x.db#t", copies=2)


@pytest.mark.parametrize("option", [{"copies": 2}, {"rows": 5}, {"ledger": True}])
def test_a_table_in_parts_has_none_of_them(option: dict[str, Any]) -> None:
    options = resolve("condense", Condensing(), None, option)
    with pytest.raises(ParameterError, match=f"--{next(iter(option))} needs the whole table"):
        refuse_in_blocks(options)


def test_a_class_of_k_people_does_not_end_the_measuring_and_quotas_have_no_ledger(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    rare = np.where(np.arange(150) < 11, "yes", "no")
    table = pl.DataFrame({"x": rng.normal(size=150).round(2), "y": rng.normal(size=150).round(2)})
    table.with_columns(ill=rare).write_csv(tmp_path / "wages.csv")
    made(tmp_path, "out.csv", target="ill", ledger=True)
    assert json.loads((tmp_path / "out.csv.ledger.json").read_text())["splits"] == 3
    with pytest.raises(ParameterError, match="drop the quotas"):
        made(tmp_path, "balanced.csv", ledger=True, rows="ill=yes:50,no:50")


def test_effects_that_are_lost_are_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lossy(*_: Any, **__: Any) -> dict[str, Any]:
        ledger = json.loads((folder / "release.csv.ledger.json").read_text())
        return {**ledger, "clear": 10, "lost": ["educ in ols(lwage ~ educ)"] * 3}

    monkeypatch.setattr("tulle.estimating.ledger.error_ledger", lossy)
    done = condense(
        folder / "wages.csv", tmp_path / "out.csv", k=10, seed=0, ledger=True, accept_risk="a test"
    )
    assert any("3 of 10 clear effects" in note for note in done.notes)


# -- survey weights ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A survey in which weights matter, and a release of it as its policy says."""
    place = tmp_path_factory.mktemp("survey")
    rng = np.random.default_rng(2)
    n = 800
    age, region = rng.integers(18, 90, n), rng.choice(["a", "b", "c"], n)
    weight = (3 - age / 40) * rng.uniform(0.7, 1.4, n)
    table = pl.DataFrame({"age": age, "region": region, "anweight": weight.round(4)})
    table.write_csv(place / "wages.csv")
    made(place, "release.csv")  # the name of the weight says enough
    return place


def test_a_weight_in_the_manifest_is_used(survey: Path) -> None:
    original = pl.read_csv(survey / "wages.csv")
    truth = original["anweight"] @ original["age"] / original["anweight"].sum()  # type: ignore[operator]
    plain = float(original["age"].mean())  # type: ignore[arg-type]
    assert read_manifest(survey / "release.csv").columns["anweight"]["role"] == "weight"
    found = json.loads(asked(survey / "release.csv", "mean(age)", "--json").stdout)
    assert found["weight"] == "anweight"
    assert found["estimates"][0]["estimate"] == pytest.approx(truth, abs=0.3)
    other = json.loads(
        asked(survey / "release.csv", "mean(age)", "--weight", "none", "--json").stdout
    )
    assert "weight" not in other
    assert other["estimates"][0]["estimate"] == pytest.approx(plain, abs=2)
    assert abs(plain - truth) > 3


def test_quotas_are_weighted_back_to_the_population(survey: Path) -> None:
    release = made(survey, "quotas.csv", rows="region=a:400,b:50,c:50")
    original = pl.read_csv(survey / "wages.csv")
    shares = [
        dict(t.group_by("region").agg(pl.col("anweight").sum() / t["anweight"].sum()).iter_rows())
        for t in (original, release)
    ]
    assert shares[0] == pytest.approx(shares[1], abs=0.01)


def test_the_audit_measures_weighted_totals(survey: Path) -> None:
    from tulle import audit

    columns = {"anweight": "weight"}
    tables = [pl.read_csv(survey / name) for name in ("wages.csv", "release.csv")]
    good = audit(*tables, policy=columns, random_state=0).result["metrics"]
    assert good["weighted_difference"] < 0.02
    flat = tables[1].with_columns(anweight=pl.lit(1.0))
    assert (
        audit(tables[0], flat, policy=columns, random_state=0).result["metrics"][
            "weighted_difference"
        ]
        > 5 * good["weighted_difference"]
    )
