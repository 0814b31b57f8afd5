"""How rows lead to people: links of several columns, orphans, circles, and tables of two people."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

from tests.database.hospital import database, tables
from tulle import Database
from tulle.errors import DataError, ParameterError

PEOPLE = pl.DataFrame({"id": [1, 2, 3], "born": [1950, 1961, 1972]})


def test_every_row_leads_to_a_person_and_orphans_are_counted() -> None:
    hospital = database()
    assert hospital.orphans == {"visits": 0, "labs": 0, "drugs": 1}
    assert list(hospital.tables) == ["patients", "visits", "drugs", "labs", "wards"]
    given = tables()
    whose = dict(given["visits"].select("visit", "patient").iter_rows())
    patients = hospital.tables["patients"]["patient"]
    found = patients[hospital.persons["labs"]].to_list()
    assert found == [whose[visit] for visit in hospital.tables["labs"]["visit"]]
    assert [t for t, p in hospital.parents.items() if p == "patients"] == ["visits", "drugs"]
    assert "P0" not in repr(hospital)


def test_links_of_several_columns() -> None:
    seasons = pl.DataFrame({"id": [1, 1, 3], "year": [7, 8, 7], "team": ["a", "b", "a"]})
    games = pl.DataFrame({"who": [3, 1, 1, 1], "season": [7, 8, 8, 9], "goals": [0, 1, 2, 3]})
    found = Database(
        {"people": PEOPLE, "games": games, "seasons": seasons},
        people="people", key="id",
        links={"seasons": ("id", "people"), "games": (["who", "season"], "seasons")},
        keys={"seasons": ["id", "year"]},
    )  # fmt: skip
    assert found.orphans == {"seasons": 0, "games": 1}
    assert found.tables["games"]["goals"].to_list() == [1, 2, 0]
    assert found.persons["games"].tolist() == [0, 0, 2]


def test_rows_are_sorted_by_parent_and_order_as_they_stand_where_times_are_equal() -> None:
    visits = pl.DataFrame({"id": [2, 1, 1, 2], "day": [5, 4, 2, 5], "n": [0, 1, 2, 3]})
    options = {"people": "people", "key": "id", "links": {"visits": ("id", "people")}}
    found = Database({"people": PEOPLE, "visits": visits}, order={"visits": ["day"]}, **options)
    assert found.tables["visits"]["n"].to_list() == [2, 1, 0, 3]


def test_a_table_of_rows_is_no_table_of_people() -> None:
    rows = pd.DataFrame({"id": [4, 4, 9], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match="condense this table alone"):
        Database({"rows": rows}, people="rows", key="id")


VISITS = pl.DataFrame({"id": [1, 2], "visit": [1, 2], "day": [1, 2]})


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"links": {"visits": ("id", "people"), "people": ("born", "visits")}},
            DataError,
            "above it",
        ),
        ({"links": {"visits": [("id", "people"), ("visit", "labs")]}}, DataError, "two parents"),
        (
            {"links": {"visits": ("visit", "labs"), "labs": ("visit", "visits")}},
            DataError,
            "circle",
        ),
        ({"links": {"visits": ("id", "people")}}, DataError, "'labs' leads to nobody"),
        ({"links": {"visits": ("no", "people")}}, DataError, "'no'"),
        ({"links": {"visit": ("id", "people")}}, ParameterError, "'visit'"),
        ({"people": "persons"}, ParameterError, "'persons'"),
        ({"key": None}, ParameterError, "'key'"),
    ],
)
def test_what_does_not_lead_to_one_person_is_refused(
    options: dict, error: type[Exception], said: str
) -> None:
    given = {"people": PEOPLE, "visits": VISITS, "labs": VISITS}
    with pytest.raises(error, match=said):
        Database(given, **({"people": "people", "key": "id"} | options))


def test_a_parent_whose_key_repeats_leads_to_several_people() -> None:
    links = {"visits": ("id", "people"), "labs": ("visit", "visits")}
    twice = VISITS.with_columns(visit=pl.lit(1))
    with pytest.raises(DataError, match="'visits' repeats"):
        Database(
            {"people": PEOPLE, "visits": twice, "labs": VISITS},
            people="people", key="id", links=links, keys={"visits": "visit"},
        )  # fmt: skip
