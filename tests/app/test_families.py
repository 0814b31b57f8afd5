"""The pages of the other families: each button runs a command, each result is a file."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.app.asking import Answer, Asked, streamed
from tests.app.test_jobs import ended
from tests.app.test_pages import posted
from tulle import load_policy
from tulle._app.jobs import RunningJob
from tulle._app.pictures import of_linked
from tulle._app.study import SITES, Study, studies
from tulle._commands.inspect import inspect

pytestmark = pytest.mark.slow

BASKETS = ["bread milk beer"] * 30 + ["bread milk"] * 10 + ["milk eggs"] * 40 + ["beer tea"] * 20


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path).enter()


def run(asked: Asked, study: Study, step: str, **form: Any) -> Answer:
    """Post a form, wait for its command, and return the page."""
    answer = posted(asked, f"/t/{study.id}/{step}", **form)
    assert (answer.status, answer.headers.get("location")) == (303, f"/t/{study.id}/{step}")
    job = ended(study.job(step))
    assert job.state == "done", job.complaints
    return asked.ask("GET", f"/t/{study.id}/{step}")


def test_rules_are_mined_picked_and_hidden(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "shop.dat").write_text("\n".join(BASKETS) + "\n")
    study = Study(tmp_path, "shop.dat")
    assert f"/t/{study.id}/mine" in asked.ask("GET", "/").text
    thresholds = {"min_support": "10%", "min_confidence": "50%"}
    assert "milk" in run(asked, study, "mine", **thresholds).text
    assert posted(asked, f"/t/{study.id}/hide").status == 400  # nothing was ticked
    page = asked.ask("GET", f"/t/{study.id}/hide").text
    assert "bread, beer -&gt; milk" in page or "beer, bread -&gt; milk" in page
    page = run(asked, study, "hide", **{"rule-0": "on"}).text
    found = study.job("hide").result()
    assert found["hiding_failure"] == 0
    assert (study.place / "shared.dat").read_text() != (tmp_path / "shop.dat").read_text()
    assert f"/t/{study.id}/files/hide/data" in page
    for word, status in (("data", 200), ("report-shown", 200), ("..", 404), ("rules-shown", 200)):
        assert asked.ask("GET", f"/t/{study.id}/files/hide/{word}").status == status


def test_values_of_a_form_are_never_options(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "shop.dat").write_text("\n".join(BASKETS) + "\n")
    study = Study(tmp_path, "shop.dat")
    form = {"min_support": "10%", "min_confidence": "--output=/tmp/x.csv"}
    posted(asked, f"/t/{study.id}/mine", **form)
    job = ended(study.job("mine"))
    assert job.state == "failed"
    assert "--min-confidence" in " ".join(job.complaints)
    assert job.description["commands"][0].count("-o") == 1


def test_a_table_of_baskets_names_its_columns(asked: Asked, tmp_path: Path) -> None:
    rows = [(till, item) for till, line in enumerate(BASKETS) for item in line.split()]
    pl.DataFrame(rows, schema=["till", "product"], orient="row").write_csv(tmp_path / "shop.csv")
    study = Study(tmp_path, "shop.csv")
    form = {"min_support": "10%", "min_confidence": "50%", "basket": "till", "item": "product"}
    run(asked, study, "mine", **form)
    assert study.job("mine").result()["baskets"] == len(BASKETS)


def test_a_bad_verdict_on_sketches_asks_who_takes_the_risk(asked: Asked, tmp_path: Path) -> None:
    words, drawn = [f"word{i}" for i in range(40)], random.Random(0)
    lines = [" ".join(drawn.choices(words, k=12)) for _ in range(120)]
    (tmp_path / "notes.txt").write_text("\n".join(lines) + "\n")
    study = Study(tmp_path, "notes.txt")
    posted(asked, f"/t/{study.id}/sketch", model="delta", delta="0.5")
    assert ended(study.job("sketch")).state == "failed"
    page = asked.ask("GET", f"/t/{study.id}/sketch").text
    assert 'name="accept_risk"' in page
    assert not (study.place / "sketches.parquet").exists()
    form = {"model": "delta", "delta": "0.5", "accept_risk": "a trial"}
    assert f"/t/{study.id}/files/sketch/data" in run(asked, study, "sketch", **form).text


def test_sites_agree_encode_join_and_decode(asked: Asked, tmp_path: Path) -> None:
    drawn = random.Random(0)
    sites = {}
    for name in ("berlin.csv", "oslo.csv"):
        rows = [(drawn.randint(18, 90), drawn.choice(["Flu", "Mumps"])) for _ in range(60)]
        table = pl.DataFrame(rows, schema=["age", "illness"], orient="row")
        table.write_csv(tmp_path / name)
        sites[name] = Study(tmp_path, name).id
    study = Study(tmp_path, SITES)
    assert posted(asked, f"/t/{study.id}/agree").status == 400
    for site in sites.values():
        run(asked, study, "summary", table=site)
    told = [Study(tmp_path, f"{name}.summary.json").id for name in ("berlin", "oslo")]
    page = run(asked, study, "agree", **{f"summary-{one}": "on" for one in told})
    assert study.job("agree").result()["fingerprint"] in page.text
    for site in sites.values():
        run(asked, study, "encode", table=site)
    codes = [Study(tmp_path, f"{name}.codes.parquet").id for name in ("berlin", "oslo")]
    run(asked, study, "join", **{f"codes-{one}": "on" for one in codes})
    union = Study(tmp_path, "sites.union.parquet").id
    run(asked, study, "decode", result=union, values=sites["berlin.csv"], kind="table")
    plain = pl.read_parquet(tmp_path / "sites.plain.parquet")
    assert plain.height == 120
    assert set(plain["illness"]) == {"Flu", "Mumps"}
    assert (tmp_path / "sites.key").stat().st_mode & 0o777 == 0o600


def test_the_state_of_a_stream_is_watched(asked: Asked, tmp_path: Path) -> None:
    streamed(tmp_path)
    study = Study(tmp_path, "visits.state")
    assert f"/t/{study.id}/stream" in asked.ask("GET", "/").text
    before = sorted(tmp_path.rglob("*"))
    page = asked.ask("GET", f"/t/{study.id}/stream").text
    assert "3,500" in page
    assert sorted(tmp_path.rglob("*")) == before  # not even a lock
    (tmp_path / "wrong.state").write_text("nothing")
    assert asked.ask("GET", f"/t/{Study(tmp_path, 'wrong.state').id}/stream").status == 400


def test_tables_of_a_database_are_offered_and_read(asked: Asked, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "clinic.db")) as connection:
        for name in ("visits", "odd name", "x'; DROP"):
            connection.execute(f'CREATE TABLE "{name}" (age INTEGER, town TEXT)')
        rows = [(20 + i % 40, f"t{i % 5}") for i in range(80)]
        connection.executemany("INSERT INTO visits VALUES (?, ?)", rows)
        connection.commit()
    (tmp_path / "broken.sqlite").write_text("no database")
    assert [study.name for study in studies(tmp_path)] == ["clinic.db#visits"]
    study = studies(tmp_path)[0]
    assert "town" in asked.ask("GET", f"/t/{study.id}/data").text
    assert posted(asked, f"/t/{study.id}/inspect").status == 303
    assert ended(study.job("inspect")).state == "done"
    assert study.job("inspect").result(1)["columns"]["town"]  # it was drawn, too
    assert posted(asked, f"/t/{study.id}/first", unit="row", then="roles").status == 303
    assert [c.name for c in load_policy(study.policy_file).columns] == ["age", "town"]
    assert asked.ask("GET", f"/t/{study.id}/explore").status == 200


def test_linked_tables_are_read_and_released_together(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(RunningJob, "start", lambda self, root, words: begun.append(words[0]))
    (tmp_path / "patients.csv").write_text("id,age\n1,30\n")
    (tmp_path / "visits.csv").write_text("id,cost\n1,3\n")
    study = Study(tmp_path, SITES)
    assert f"/t/{study.id}/linked" in asked.ask("GET", "/").text
    assert posted(asked, f"/t/{study.id}/together", k="10").status == 400  # not read yet
    assert posted(asked, f"/t/{study.id}/linked").status == 303
    assert begun[-1][:2] == ["inspect", "."]
    (study.place / "linked.policy.toml").write_text("")
    assert posted(asked, f"/t/{study.id}/linked").status == 400  # what was edited is not replaced
    assert posted(asked, f"/t/{study.id}/linked", policy="replace").status == 303
    assert posted(asked, f"/t/{study.id}/together", k="10").status == 303
    assert begun[-1][:2] == ["condense", "."]
    assert "--k=10" in begun[-1]


def test_columns_of_linked_tables_are_drawn_and_decided_on_the_page(
    asked: Asked, tmp_path: Path
) -> None:
    patients = {"patient": range(9000, 9120), "age": [20 + i % 50 for i in range(120)]}
    pl.DataFrame(patients).write_csv(tmp_path / "patients.csv")
    visits = {"patient": [9000 + i // 3 for i in range(360)], "ward": ["a", "b", "c"] * 120}
    pl.DataFrame(visits).write_csv(tmp_path / "visits.csv")
    study = Study(tmp_path, SITES)
    page = run(asked, study, "linked").text
    assert f'id="next" href="/t/{study.id}/together"' in page  # what comes next is the one button
    assert "visits.ward" in page
    assert '<svg class="spark"' in page
    assert "--policy" not in page  # there is no command line here
    file = study.place / "linked.policy.toml"
    names = [f"{name}.{c.name}" for name, s in load_policy(file).tables.items() for c in s.columns]
    place = names.index("visits.ward")
    path = f"/t/{study.id}/linked-column"
    assert posted(asked, path, column=place, role="sensitive").status == 303
    assert load_policy(file).tables["visits"].columns[0].role == "sensitive"
    assert load_policy(file).tables["patients"].columns[0].role == "quasi-identifier"
    assert posted(asked, path, column=place, role="x").status == 400


def test_pictures_of_linked_tables_rest_on_people(tmp_path: Path) -> None:
    folder = tmp_path / "clinic"
    folder.mkdir()
    patients = {"patient": range(120), "age": [20 + i % 5 for i in range(120)]}
    pl.DataFrame(patients).write_csv(folder / "patients.csv")
    ward = ["busy"] * 300 + ["calm"] * 60  # the 300 visits are of five people
    who = [i // 60 for i in range(300)] + [60 + i for i in range(60)]
    pl.DataFrame({"patient": who, "ward": ward}).write_csv(folder / "visits.csv")
    file = tmp_path / "policy.toml"
    inspect(folder, file)
    drawn = of_linked(str(folder), load_policy(file), str(file))["tables"]
    assert set(drawn) == {"patients", "visits"}
    bars = {row["label"]: row["count"] for row in drawn["visits"]["columns"]["ward"]}
    assert bars.get("busy") is None
    both = of_linked(str(folder), load_policy(file), str(file), str(folder))["tables"]
    assert both["visits"]["records"] == 360
    assert "\0person" not in str(both)


def test_a_release_is_asked(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(RunningJob, "start", lambda self, root, words: begun.append(words[0]))
    (tmp_path / "people.csv").write_text("age\n30\n")
    study = Study(tmp_path, "people.csv")
    place = study.place / "releases" / "1"
    place.mkdir(parents=True)
    (place / "run.json").write_text('{"file": "release.csv"}')
    (place / "release.csv").write_text("age\n31\n")
    assert "mean(age)" in asked.ask("GET", f"/t/{study.id}/estimate").text
    path = f"/t/{study.id}/estimate"
    assert posted(asked, path, release="1", question="--population").status == 400
    assert posted(asked, path, release="1", question="mean(age)").status == 303
    assert begun[-1][1:3] == ["people.csv.tulle/releases/1/release.csv", "mean(age)"]
