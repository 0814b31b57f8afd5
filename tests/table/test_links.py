"""How tables hang together, found by names and values and told in sentences."""

from __future__ import annotations

import polars as pl

from tulle import hospital
from tulle.table._links import Link, propose_links

HOSPITAL = hospital(300, random_state=0)


def without_keys_of_their_own() -> dict[str, pl.DataFrame]:
    """A hospital whose visits are numbered within each patient."""
    visits = HOSPITAL["visits"].sort("patient_id", "admitted")
    visits = visits.with_columns(number=pl.int_range(1, pl.len() + 1).over("patient_id"))
    labs = HOSPITAL["labs"].join(visits.select("visit_id", "patient_id", "number"), on="visit_id")
    return {**HOSPITAL, "visits": visits.drop("visit_id"), "labs": labs.drop("visit_id")}


def test_a_hospital_is_understood_without_being_told_anything() -> None:
    lost = pl.DataFrame({"visit_id": [10**6] * 3, "test": ["sodium"] * 3, "value": [140.0] * 3})
    tables = {**HOSPITAL, "labs": pl.concat([HOSPITAL["labs"], lost])}
    tables["audit_log"] = pl.DataFrame({"when": [1, 2], "what": ["a", "b"]})
    found = propose_links(tables, {}, [])
    assert found.sentences == [
        "5 tables, 3 of people. People: patients (key patient_id; 2 tables lead to it). "
        "Look-up: icd.",
        "visits.patient_id -> patients.",
        "labs.visit_id -> visits -> patients: 3 rows of nobody (left out).",
        "visits.icd -> icd (look-up).",
        "Not linked, left out until stated: audit_log.",
    ]
    assert (found.people.table, found.people.key) == ("patients", "patient_id")
    assert found.tables["icd"].link == ("visits.icd",)
    assert found.left_out == ["audit_log"]


def test_a_key_of_two_columns_is_found() -> None:
    found = propose_links(without_keys_of_their_own(), {}, [])
    assert found.tables["labs"].parent == "visits"
    assert found.tables["labs"].link == found.tables["visits"].key == ("patient_id", "number")
    assert "labs.patient_id+number -> visits -> patients." in found.sentences


def test_equal_numbers_are_no_link_without_a_name_nor_a_name_without_the_numbers() -> None:
    tables = {
        "patients": pl.DataFrame({"id": range(50)}),
        "rooms": pl.DataFrame({"id": range(50), "beds": range(50)}),
        "bills": pl.DataFrame({"patient_id": range(1000, 1050), "amount": range(50)}),
    }
    assert propose_links(tables, {}, []).sentences == ["No table leads to another."]


def test_types_must_be_equal() -> None:
    tables = {
        "patients": pl.DataFrame({"patient_id": range(50)}),
        "visits": pl.DataFrame({"patient_id": [str(i % 9) for i in range(50)]}),
    }
    assert propose_links(tables, {}, []).people.table == ""


def test_declared_keys_come_first_whatever_they_are_called() -> None:
    tables = {
        "a": pl.DataFrame({"x": range(20)}),
        "b": pl.DataFrame({"y": [i % 20 for i in range(60)], "z": range(60)}),
    }
    found = propose_links(tables, {"a": ("x",)}, [Link("b", ("y",), "a", ("x",))])
    assert (found.people.table, found.tables["b"].parent) == ("a", "a")


def test_a_laboratory_value_is_that_of_a_visit_and_the_second_way_is_named() -> None:
    visits = HOSPITAL["visits"].select("visit_id", "patient_id")
    labs = HOSPITAL["labs"].join(visits, on="visit_id")
    found = propose_links({**HOSPITAL, "labs": labs}, {}, [])
    assert found.tables["labs"].parent == "visits"
    assert found.second == {"labs": {"patient_id": "patients"}}


def test_a_table_that_points_to_itself_is_no_circle() -> None:
    staff = pl.DataFrame({"employee_id": range(30), "manager_id": [i // 2 for i in range(30)]})
    shifts = pl.DataFrame({"employee_id": [i % 30 for i in range(90)], "hours": range(90)})
    itself = Link("employees", ("manager_id",), "employees", ("employee_id",))
    found = propose_links({"employees": staff, "shifts": shifts}, {}, [itself])
    assert found.people.table == "employees"
    assert found.second == {"employees": {"manager_id": "employees"}}


def test_whoever_stands_above_is_counted() -> None:
    homes = pl.DataFrame({"household_id": range(40)})
    people = pl.DataFrame({"person_id": range(100), "household_id": [i % 40 for i in range(100)]})
    trips = pl.DataFrame({"person_id": [i % 100 for i in range(300)], "km": range(300)})
    found = propose_links({"persons": people, "trips": trips, "households": homes}, {}, [])
    assert found.people.table == "households"
    assert found.tables["trips"].parent == "persons"


def test_patients_are_counted_before_doctors() -> None:
    doctors = pl.DataFrame({"doctor_id": range(8)})
    visits = HOSPITAL["visits"].with_columns(doctor_id=pl.int_range(pl.len()) % 8)
    found = propose_links({**HOSPITAL, "visits": visits, "doctors": doctors}, {}, [])
    assert found.people.table == "patients"
    assert found.tables["doctors"].role == "look-up"


def test_empty_tables_lead_nowhere() -> None:
    tables = {**HOSPITAL, "labs": HOSPITAL["labs"].clear()}
    assert "labs" in propose_links(tables, {}, []).left_out
    assert propose_links({"a": pl.DataFrame({"x": []})}, {}, []).people.table == ""
