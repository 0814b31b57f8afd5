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

import polars as pl
import pytest

from tests.app.asking import Asked
from tulle import load_policy
from tulle._app.study import Study, is_table_name, studies
from tulle._app.views import forecast
from tulle._commands.inspect import inspect
from tulle.exploring import Exploration
from tulle.exploring._points import Point, Spec

MARKUP = "<img src=x onerror=alert(1)>"


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
    for page in ("/", *(f"/t/{study.id}/{p}" for p in ("data", "roles", "context", "control"))):
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


def test_the_unit_of_protection_is_a_role(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    assert posted(asked, f"/t/{study.id}/unit").status == 400
    assert posted(asked, f"/t/{study.id}/unit", unit="person", column=2).status == 303
    assert load_policy(study.policy_file).columns[2].role == "person"
    assert "20" in asked.ask("GET", f"/t/{study.id}/roles").text
    assert study.persons == 20
    assert posted(asked, f"/t/{study.id}/unit", unit="row").status == 303
    assert Study(tmp_path, study.name).persons == 60


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
    control, explored = study.control_place, study.explore_place
    study.set_parameters("explore", {"k": [5]})
    assert study.control_place == control
    assert study.explore_place != explored
    study.set_person(2)
    assert study.control_place != control


def test_pages_before_their_time_say_what_comes_first(asked: Asked, tmp_path: Path) -> None:
    people().write_csv(tmp_path / "people.csv")
    study = studies(tmp_path)[0]
    for page in ("roles", "context", "control", "explore", "release"):
        assert asked.ask("GET", f"/t/{study.id}/{page}").status == 400
    assert asked.ask("GET", f"/t/{study.id}/data").status == 200
    assert asked.ask("GET", f"/t/{study.id}").headers["location"].endswith("/data")


def test_long_forms_are_not_read(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    assert posted(asked, f"/t/{study.id}/context", recipient="x" * (1 << 20)).status == 400


def released(study: Study, number: int, risk: float) -> None:
    """A release as the job of the app would have left it, attacked with the one before."""
    place = study.place / "releases" / str(number)
    (place / "job").mkdir(parents=True)
    facts = {"file": "release.csv", "again": "again.csv", "label": "k = 5", "command": ["condense"]}
    facts["created"] = f"2026-0{number}-01 12:00 UTC"
    (place / "run.json").write_text(json.dumps(facts))
    (place / "release.csv").write_text("age\n1\n")
    job = {"commands": [["condense"], ["verify"], ["audit"]], "started": 0.0}
    (place / "job" / "job.json").write_text(json.dumps(job))
    judged = {"level": "good", "reason": "", "next": "", "details": []}
    rows = [{"attack": "earlier_membership", "rate": 0.6, "control": 0.5, "risk": risk}]
    worse = {**judged, "level": "bad" if risk else "good"}
    public = {"attacks": rows if risk else [], "verdict": {"privacy": worse, "use": judged}}
    told = [{"verdict": {"privacy": judged, "use": judged}}, {}, public]
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
    assert "together they tell 10" in history


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


def test_two_points_are_pinned_and_a_third_replaces_the_first(tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    for point in ("a", "b", "c", "c", "d"):
        study.pin(point)
    assert study.pinned == ["b", "d"]


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
    people(30).write_csv(tmp_path / "others.csv")
    study.answer(unit="row", control={"file": "others.csv"}, point="p2")
    explored(study, "caution", "caution")
    page = asked.ask("GET", f"/t/{study.id}/explore").text
    assert "<h2>No k passes</h2>" in page
    assert "The smallest k that passes" not in page
    assert '<button id="choose" class="second">' in page
    page = html.unescape(asked.ask("GET", f"/t/{study.id}/release").text)
    assert "No k passes" in page
    assert '<button id="make" class="second">' in page
    assert '<span class="no">✕ no</span> The chosen release passes (privacy: caution)' in page


def test_a_release_that_passes_is_offered(asked: Asked, tmp_path: Path) -> None:
    study = inspected(tmp_path, people())
    people(30).write_csv(tmp_path / "others.csv")
    study.answer(unit="row", control={"file": "others.csv"}, point="p3")
    explored(study, "bad", "good", "good")
    assert "The smallest k that passes" in asked.ask("GET", f"/t/{study.id}/explore").text
    page = html.unescape(asked.ask("GET", f"/t/{study.id}/release").text)
    assert '<button id="make">Make the release</button>' in page
    assert '<span class="yes">✓ yes</span> The chosen release passes (privacy: good)' in page
    study.answer(point="p1")
    page = html.unescape(asked.ask("GET", f"/t/{study.id}/release").text)
    assert "This release does not pass" in page
    assert "It is bad." in page


def test_tables_of_the_same_people_are_not_torn_apart_in_silence(
    asked: Asked, tmp_path: Path
) -> None:
    people().write_csv(tmp_path / "patients.csv")
    assert "keys no longer join" not in asked.ask("GET", "/").text
    people().write_csv(tmp_path / "visits.csv")
    assert "keys no longer join" in asked.ask("GET", "/").text
