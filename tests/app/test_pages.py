"""Pages of the app: paths stay in the folder, names stay text, answers become the policy."""

from __future__ import annotations

import fcntl
import html
import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import polars as pl
import pytest

from tests.app.asking import Asked
from tulle import load_policy
from tulle._app.jobs import RunningJob
from tulle._app.pictures import FEWEST, pair_of, shape_of, sides_of
from tulle._app.study import Study, is_table_name, studies
from tulle._app.views import forecast
from tulle._commands.inspect import SILENT, inspect
from tulle.exploring import Exploration
from tulle.exploring._points import Point, Spec
from tulle.table.policy import Policy
from tulle.table.schema import Column, Kind, Role

MARKUP = "<img src=x onerror=alert(1)>"
NAMES = [f"Person Number {place}" for place in range(60)]


def inspected(folder: Path, table: pl.DataFrame, name: str = "people.csv") -> Study:
    """A table that was read, as the job of the app would have."""
    study = Study(folder, name)
    table.write_csv(study.source)
    found = inspect(study.source, study.policy_file)
    place = study.job("inspect").place
    place.mkdir(parents=True)
    (place / "job.json").write_text(json.dumps({"commands": [["inspect"]], "started": time.time()}))
    tables = {"columns": found.columns, "singled_out_by": found.combinations}
    (place / "0.out").write_text(json.dumps({**found.summary, **tables}, default=str))
    (place / "0.code").write_text("0")
    drawn = shape_of(table, load_policy(study.policy_file))
    (place / "1.out").write_text(json.dumps({"columns": drawn}))
    return study


def people(rows: int = 60) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "age": [20 + i % 40 for i in range(rows)],
            MARKUP: [f"t{i % 5}" for i in range(rows)],
            "visits_of": [i // 3 for i in range(rows)],
        }
    )


def posted(asked: Asked, path: str, **form: Any) -> Any:
    return asked.ask("POST", path, urlencode(form).encode())


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path, limit=5000).enter()


@pytest.mark.parametrize(
    "name",
    ["../x.csv", "..%2Fx.csv", "a/b.csv", "/etc/x.csv", ".hidden.csv", "-o.csv", "x.txt", "",
     "a\\b.csv", "x\n.csv", "x.csv%00", "sqlite:///x.db#t", "book.xlsx#sheet"],
)  # fmt: skip
def test_uploads_stay_in_the_folder(asked: Asked, tmp_path: Path, name: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    asked = Asked(inner).enter()
    assert asked.ask("PUT", "/upload", b"a\n1\n", x_name=name).status == 400
    assert list(tmp_path.rglob("*")) == [inner]


def test_an_upload_is_for_its_owner_and_replaces_nothing(asked: Asked, tmp_path: Path) -> None:
    answer = asked.ask("PUT", "/upload", b"a,b\n1,2\n" * 500, x_name="p%C3%A9ople.csv")
    assert answer.status == 201
    made = tmp_path / "péople.csv"
    assert made.read_bytes() == b"a,b\n1,2\n" * 500
    assert os.stat(made).st_mode & 0o777 == 0o600
    assert "ople" not in answer.text  # no names in addresses
    assert asked.ask("PUT", "/upload", b"x\n", x_name="p%C3%A9ople.csv").status == 400
    assert made.read_bytes().startswith(b"a,b")
    assert asked.ask("GET", answer.text).status == 200


@pytest.mark.parametrize("declared", ["", "5001", "-1", "0"])
def test_an_upload_that_is_too_large_leaves_nothing(
    asked: Asked, tmp_path: Path, declared: str
) -> None:
    answer = asked.ask("PUT", "/upload", b"x" * 5001, x_name="x.csv", content_length=declared)
    assert answer.status == 400
    assert "5,000" in answer.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    ["/static/../guard.py", "/static/..%2fguard.py", "/static/style.css/..", "/static/guard.py",
     "/t/../data", "/t/people.csv/data", "/t/%2e%2e/data", "/t/0/releases/1/..",
     "/t/0/points/../../x"],
)  # fmt: skip
def test_no_path_leads_out(asked: Asked, tmp_path: Path, path: str) -> None:
    people().write_csv(tmp_path / "people.csv")
    answer = asked.ask("GET", path)
    assert answer.status in (400, 404)
    assert "import" not in answer.text


def test_links_out_of_the_folder_are_not_tables(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    people().write_csv(tmp_path / "people.csv")
    (inner / "link.csv").symlink_to(tmp_path / "people.csv")
    assert studies(inner) == []
    assert not is_table_name("../people.csv")


def test_names_stay_text_on_every_page(asked: Asked, tmp_path: Path) -> None:
    name = "<b>people<script>.csv"
    study = inspected(tmp_path, people(), name)
    for page in ("/", *(f"/t/{study.id}/{p}" for p in ("data", "roles", "context", "release"))):
        answer = asked.ask("GET", page)
        assert answer.status == 200
        assert "<b>" not in answer.text
        assert MARKUP not in answer.text
    roles = asked.ask("GET", f"/t/{study.id}/roles").text
    assert html.escape(MARKUP) in roles
    assert "people" not in roles.partition("<title>")[2].partition("</title>")[0]


def test_a_role_changes_the_policy_at_once_and_single_roles_move(
    asked: Asked, tmp_path: Path
) -> None:
    study = inspected(tmp_path, people())
    path = f"/t/{study.id}/column"
    assert posted(asked, path, column=0, role="sensitive").status == 303
    assert posted(asked, path, column=1, role="target").status == 303
    assert posted(asked, path, column=0, role="target").status == 303
    policy = load_policy(study.policy_file)
    assert [c.role.value for c in policy.columns[:2]] == ["target", "quasi-identifier"]
    for wrong in ({"column": 9, "role": "target"}, {"column": 0, "role": "x"}, {"column": "x"}):
        assert posted(asked, path, **wrong).status == 400
    assert load_policy(study.policy_file) == policy
    answer = posted(asked, path, column=0, role="x")
    assert "&#39;age&#39;" in answer.text  # errors name the column


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The commands of jobs that would have been started."""
    found: list[Any] = []
    monkeypatch.setattr(RunningJob, "start", lambda self, root, words: found.append(words))
    return found


def test_the_first_release_takes_one_answer(asked: Asked, tmp_path: Path, begun: list[Any]) -> None:
    study = inspected(tmp_path, people().with_columns(pl.Series("name", NAMES)))
    page = asked.ask("GET", f"/t/{study.id}/data").text
    assert "These columns identify people and stay out. Is that right?" in page
    assert 'name="out-3" id="out-3" checked' in page
    answer = posted(asked, f"/t/{study.id}/first", **{"unit": "row", "out-3": "on", "also": "1"})
    assert answer.headers["location"].endswith("/releases/1")
    policy = load_policy(study.policy_file)
    assert [c.role.value for c in policy.columns][1] == "identifier"
    assert policy.columns[3].role == "identifier"
    condense, verify, pictures = begun[0]
    assert "--k" not in condense  # the command finds it
    assert [words[0] for words in begun[0]] == ["condense", "verify", "pictures"]
    assert not any("--seed" in words for words in (verify, pictures))


def test_a_column_of_people_stays_out_whoever_is_counted(
    asked: Asked, tmp_path: Path, begun: list[Any]
) -> None:
    study = inspected(tmp_path, people())
    path = f"/t/{study.id}/first"
    assert posted(asked, path).status == 400
    assert posted(asked, path, unit="person", column=2).status == 303
    assert load_policy(study.policy_file).columns[2].role == "person"
    assert study.persons == 20
    assert posted(asked, path, unit="row").status == 303  # no box names it: it was no identifier
    assert load_policy(study.policy_file).columns[2].role == "identifier"
    assert Study(tmp_path, study.name).persons == 60


def test_pictures_rest_on_people_and_not_on_rows() -> None:
    rows = [(place // 20, "a" if place < 60 else "b") for place in range(400)]
    table = pl.DataFrame(rows, schema=["who", "ward"], orient="row")
    columns = (Column("who", Kind.CATEGORY, Role.PERSON), Column("ward", Kind.CATEGORY, Role.QUASI))
    (bars,) = shape_of(table, Policy(columns)).values()
    assert [row for row in bars if row["original"]] == []  # a few people: nor what is left of all
    # the row that stands for somebody is drawn: first visits would be those of one ward
    both = pl.DataFrame({"who": [i // 2 for i in range(400)], "ward": ["a", "b"] * 200})
    assert len(shape_of(both, Policy(columns))["ward"]) > 1
    alone = Policy((Column("ward", Kind.CATEGORY, Role.QUASI),))
    (bars,) = shape_of(table, alone).values()
    assert {row["label"]: row["count"] for row in bars} == {"b": 340, "a": 60}


def test_pictures_of_original_and_release_hide_small_cells() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(20, 60, 400)
    table = pl.DataFrame({"age": age, "ward": np.where(age > 58, "rare", "usual")})
    policy = Policy(
        (Column("age", Kind.INTEGER, Role.QUASI), Column("ward", Kind.CATEGORY, Role.QUASI))
    )
    found = sides_of(table, table.with_columns(ward=pl.lit("usual")), policy, FEWEST)
    assert list(found) == ["ward", "age"]  # what differs most comes first
    cells = pair_of(table, table, policy, ["age", "ward"], FEWEST)
    assert min(cell["count"] for cell in cells) >= FEWEST
    # of two numbers, bars are joined until cells have people
    policy = Policy((policy.columns[0], Column("cost", Kind.DECIMAL, Role.QUASI)))
    table = table.with_columns(cost=age + rng.normal(0, 10, 400))
    cells = pair_of(table, table, policy, ["age", "cost"], FEWEST)
    assert min(cell["count"] for cell in cells) >= FEWEST
    assert sum(cell["share"] for cell in cells if cell["of"] == "original") > 0.8


def test_columns_say_only_the_reason_that_matters(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people().with_columns(pl.Series("name", NAMES)))
    page = asked.ask("GET", f"/t/{study.id}/roles").text
    assert "no evidence for another role" not in page.partition("<details")[0]
    assert page.index('id="role-3"') < page.index('id="role-0"')  # what stays out comes first
    assert '<svg class="spark"' in page


def test_a_thousand_columns_are_one_page(asked: Asked, tmp_path: Path) -> None:
    table = pl.DataFrame({f"c{place}": [i % 7 for i in range(40)] for place in range(1000)})
    study = Study(tmp_path, "wide.csv")
    table.write_csv(study.source)
    columns = tuple(Column(name, Kind.INTEGER, Role.QUASI) for name in table.columns)
    study.keep_policy(Policy(columns))
    place = study.job("inspect").place
    place.mkdir(parents=True)
    (place / "job.json").write_text(json.dumps({"commands": [["inspect"]], "started": 0}))
    found = [
        {"name": c.name, "role": c.role, "distinct": 7, "missing": 0, "reason": SILENT}
        for c in columns
    ]
    told = {"records": 40, "share_unique": 1.0, "columns": found}
    (place / "0.out").write_text(json.dumps(told))
    (place / "0.code").write_text("0")
    for page in ("data", "roles"):
        assert asked.ask("GET", f"/t/{study.id}/{page}").status == 200
    several = {"columns": "3,5,999", "role": "ignored"}
    assert posted(asked, f"/t/{study.id}/column", **several).status == 303
    ignored = [c.name for c in load_policy(study.policy_file).columns if c.role is Role.IGNORED]
    assert ignored == ["c3", "c5", "c999"]
    for wrong in ({"columns": "", "role": "ignored"}, {"columns": "1,2", "role": "target"}):
        assert posted(asked, f"/t/{study.id}/column", **wrong).status == 400
    assert posted(asked, f"/t/{study.id}/undo").status == 303
    assert load_policy(study.policy_file).named(Role.IGNORED) == []
    form = {"unit": "row", **{f"out-{place}": "on" for place in range(1000)}}
    assert posted(asked, f"/t/{study.id}/first", then="roles", **form).status == 303


def test_an_error_keeps_the_steps_and_the_way_back(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    before = f"http://127.0.0.1/t/{study.id}/context"
    body = urlencode({"max_linkage": "abc"}).encode()
    answer = asked.ask("POST", f"/t/{study.id}/context", body, referer=before)
    assert answer.status == 400
    assert f'href="/t/{study.id}/context">Go back' in answer.text
    assert f'href="/t/{study.id}/release"' in answer.text  # the steps are still there


def test_an_error_names_the_file_and_not_the_folder(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text("a,b,c\n1,2,3\n4,5\n")
    answer = asked.ask("GET", f"/t/{Study(tmp_path, 'broken.csv').id}/data")
    assert answer.status == 400
    assert ">broken.csv: 1 record" in answer.text
    assert str(tmp_path) not in answer.text


def test_the_verdict_offers_what_helps(asked: Asked, tmp_path: Path, begun: list[Any]) -> None:
    study = inspected(tmp_path, people())
    released(study, 1, 0.0)
    place = study.place / "releases" / "1" / "job"
    judged = {"level": "caution", "reason": "It tells 'age'.", "details": []}
    privacy = {**judged, "next": "Take larger groups, or leave out column 'age'."}
    verdict = {"privacy": privacy, "use": {**judged, "level": "good", "next": "", "reason": ""}}
    told = {"verdict": verdict, "chosen": {"k": 20, "why": "k = 20 is the best", "tried": []}}
    (place / "0.out").write_text(json.dumps(told))
    (place / "3.out").unlink()
    page = asked.ask("GET", f"/t/{study.id}/releases/1").text
    assert '<button name="k" value="30"' in page
    assert "If you send it anyway" in page  # it is not offered as if it had passed
    assert '<button name="leave" value="0"' in page
    assert posted(asked, f"/t/{study.id}/release", leave=0).status == 303
    assert load_policy(study.policy_file).columns[0].role == "ignored"
    made = Study(tmp_path, study.name).release(2)
    assert made.facts["changed"] == "age was left out"
    assert "--earlier" in begun[0][3]  # whoever has both can compare them
    (study.place / "releases" / "1" / "policy.toml").write_text(study.policy_file.read_text())
    study.set_column(0, role="quasi-identifier")
    assert posted(asked, f"/t/{study.id}/releases/1/restore").status == 303
    assert load_policy(study.policy_file).columns[0].role == "ignored"


def test_rows_of_the_release_and_what_was_left_out_are_shown(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    released(study, 1, 0.0)
    job = study.place / "releases" / "1" / "job"
    told = json.loads((job / "0.out").read_text())
    left = [{"column": "name", "reason": "an identifier"}]
    (job / "0.out").write_text(json.dumps({**told, "left_out": left}))
    bars = [{"label": "20", "original": 0.4, "release": 0.5, "count": 20}]
    drawn = {"columns": {"age": bars}, "header": ["age"], "rows": [["41"]], "records": 60}
    (job / "2.out").write_text(json.dumps(drawn))
    page = asked.ask("GET", f"/t/{study.id}/releases/1").text
    for words in ("Rows of the release", '<td class="word">41</td>', "an identifier"):
        assert words in page
    look = f"/t/{study.id}/releases/1/look?x=0"
    assert "chart-0" in asked.ask("GET", look).text
    drawing = json.loads(asked.ask("GET", f"/t/{study.id}/releases/1/charts/chart-0").text)
    assert "original" in json.dumps(drawing)
    assert asked.ask("GET", f"/t/{study.id}/releases/1/charts/chart-9").status == 404


def test_a_release_may_measure_how_far_estimates_lie(
    asked: Asked, tmp_path: Path, begun: list[Any]
) -> None:
    study = inspected(tmp_path, people())
    assert posted(asked, f"/t/{study.id}/release", k=5, ledger="on").status == 303
    assert "--ledger" in begun[0][0]
    assert posted(asked, f"/t/{study.id}/release", k=5).status == 303
    assert "--ledger" not in begun[1][0]


def test_context_and_gates_are_in_the_policy(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    path = f"/t/{study.id}/context"
    form = {"recipient": 'the "registry"', "max_linkage": "5", "preset": "12", "target": "1"}
    assert posted(asked, path, **form).status == 303
    policy = load_policy(study.policy_file)
    assert policy.context["recipient"] == 'the "registry"'
    assert policy.parameters["explore"] == {"max_linkage": 0.05}
    assert policy.parameters["audit"] == {"max_linkage": 0.05, "preset": 12}
    assert policy.columns[1].role == "target"
    assert posted(asked, path, max_linkage="five").status == 400
    assert posted(asked, path, max_linkage="").status == 303
    assert "explore" not in load_policy(study.policy_file).parameters


def test_other_answers_have_another_place(tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    explored = study.explore_place
    study.set_parameters("explore", {"k": [5]})
    assert study.explore_place != explored
    before = study.explore_place
    study.set_person(2)
    assert study.explore_place != before


def test_pages_before_their_time_lead_to_what_comes_first(asked: Asked, tmp_path: Path) -> None:
    people().write_csv(tmp_path / "people.csv")
    study = studies(tmp_path)[0]
    for page in ("roles", "context", "explore", "release"):
        answer = asked.ask("GET", f"/t/{study.id}/{page}")
        assert answer.status == 303
        assert answer.headers["location"].endswith("/data")
    page = asked.ask("GET", f"/t/{study.id}/data")
    assert page.status == 200
    assert "<span>Columns</span>" in page.text  # no link to what cannot be opened yet
    assert asked.ask("GET", f"/t/{study.id}").headers["location"].endswith("/data")


def test_long_forms_are_not_read(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    assert posted(asked, f"/t/{study.id}/context", recipient="x" * (1 << 20)).status == 400


def released(study: Study, number: int, risk: float) -> None:
    """A release as the job of the app would have left it, attacked with the one before."""
    place = study.place / "releases" / str(number)
    (place / "job").mkdir(parents=True)
    facts = {"file": "release.csv", "again": "again.csv", "label": "k = 5", "command": ["condense"]}
    facts |= {"changed": ""}
    facts["created"] = f"2026-0{number}-01 12:00 UTC"
    (place / "run.json").write_text(json.dumps(facts))
    (place / "release.csv").write_text("age\n1\n")
    job = {"commands": [["condense"], ["verify"], ["pictures"], ["audit"]], "started": 0.0}
    (place / "job" / "job.json").write_text(json.dumps(job))
    judged = {"level": "good", "reason": "", "next": "", "details": []}
    rows = [{"attack": "earlier_membership", "rate": 0.6, "control": 0.5, "risk": risk}]
    worse = {**judged, "level": "bad" if risk else "good"}
    public = {"attacks": rows if risk else [], "verdict": {"privacy": worse, "use": judged}}
    told = [{"verdict": {"privacy": judged, "use": judged}}, {}, {}, public]
    for place_of, result in enumerate(told):
        (place / "job" / f"{place_of}.out").write_text(json.dumps(result))
        (place / "job" / f"{place_of}.code").write_text("0")


def test_two_releases_of_the_same_people_are_told_together(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    assert posted(asked, f"/t/{study.id}/context", until="2020-01-31").status == 303
    released(study, 1, 0.0)
    released(study, 2, 0.1)
    page = asked.ask("GET", f"/t/{study.id}/releases/2").text
    assert "All releases together" in page
    assert "All releases together" not in asked.ask("GET", f"/t/{study.id}/releases/1").text
    assert study.release(1).verdict["privacy"]["level"] == "good"
    assert study.release(2).verdict["privacy"]["level"] == "bad"  # though alone it is good
    history = asked.ask("GET", "/history").text
    assert "due: 2020-01-31" in history
    assert "together they reveal 10" in history


def test_the_forecast_follows_the_points(tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    place = study.explore_job.place
    place.mkdir(parents=True)
    (place / "job.json").write_text(json.dumps({"commands": [["explore"]], "started": time.time()}))
    (place / "progress.json").write_text(json.dumps({"total": 10, "done": 2, "seconds": 20}))
    copy = Point("a", Spec("whole", "copy"), 60, seconds=4.0)
    release = Point("b", Spec("whole", "shape", k=5), 60, seconds=10.0)
    with (place / "lock").open("w") as lock:
        assert forecast(study, Exploration([copy])) == ""  # nothing is running
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert forecast(study, Exploration([copy])) == "at least 32 s to go"
        assert forecast(study, Exploration([copy, release])) == "about 80 s to go"


def explored(study: Study, *levels: str) -> list[Point]:
    """Points as the job of the app would have left them, of k = 5, 10, ..."""
    attacks = {"linkage": {"risk": 0.09, "risk_high": 0.2, "control": 0.1}}
    found = []
    for place, level in enumerate(levels, 1):
        judged = {"level": level, "reason": f"It is {level}.", "next": "Try.", "details": []}
        use = {**judged, "level": "good", "next": "Use it."}
        point = Point(
            f"p{place}", Spec("whole", "shape", k=5 * place), 60, 60, risk=0.09, utility=0.5,
            risk_low=0.0, risk_high=0.2, attack="linkage", attacks=attacks,
            verdict={"privacy": judged, "use": use},
        )  # fmt: skip
        folder = study.explore_place / "points"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{point.id}.json").write_text(json.dumps(point.to_dict()))
        found.append(point)
    return found


def test_a_release_that_does_not_pass_does_not_look_approved(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    explored(study, "caution", "caution")
    page = asked.ask("GET", f"/t/{study.id}/explore").text
    assert "<h2>No k passes</h2>" in page
    assert "The smallest k that passes" not in page
    assert '<button id="choose" class="second">' in page


def test_a_release_that_passes_is_offered(asked: Asked, tmp_path: Path, begun: list[Any]) -> None:
    study = inspected(tmp_path, people())
    explored(study, "bad", "good", "good")
    assert "The smallest k that passes" in asked.ask("GET", f"/t/{study.id}/explore").text
    assert posted(asked, f"/t/{study.id}/release", point="p2").status == 303
    condense = begun[0][0]
    assert condense[condense.index("--k") + 1] == "10"
    assert posted(asked, f"/t/{study.id}/release", point="p9").status == 400


def test_tables_of_the_same_people_are_not_torn_apart_in_silence(
    asked: Asked, tmp_path: Path
) -> None:
    people().write_csv(tmp_path / "patients.csv")
    assert "that their keys still join" not in asked.ask("GET", "/").text
    people().write_csv(tmp_path / "visits.csv")
    assert "that their keys still join" in asked.ask("GET", "/").text
