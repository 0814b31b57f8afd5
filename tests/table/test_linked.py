"""The sections [people] and [tables] of a policy, and SDV's metadata read as them."""

from __future__ import annotations

import json

import pytest

from tulle.errors import PolicyError
from tulle.table._linked import PeopleSection, TableSection
from tulle.table.policy import Policy, dump_policy, parse_policy
from tulle.table.schema import Column, Kind, Role

HOSPITAL = """\
[people]
table = "patients"
key = "patient_id"

[tables.patients.columns.birth]
kind = "datetime"
role = "quasi-identifier"

[tables.visits]
parent = "patients"
link = "patient_id"
key = "visit_id"
order = ["admitted"]

[tables.labs]
parent = "visits"
link = ["visit_id", "ward"]

[tables.icd]
role = "look-up"

[rules]
stay = ["patients.birth <= min(visits.admitted)", "patients.n_visits = count(visits)"]
"""


def test_a_policy_of_linked_tables_is_read_and_comes_back_as_it_was_written() -> None:
    policy = parse_policy(HOSPITAL)
    assert policy.people == PeopleSection("patients", "patient_id")
    assert policy.tables["visits"] == TableSection(
        "patients", ("patient_id",), ("visit_id",), ("admitted",)
    )
    assert policy.tables["labs"].link == ("visit_id", "ward")
    assert policy.tables["patients"].columns == (Column("birth", Kind.DATETIME, Role.QUASI),)
    assert policy.tables["icd"].role == "look-up"
    assert policy.rules is not None
    assert len(policy.rules) == 2
    again = parse_policy(dump_policy(policy, made_for="hospital.db"))
    assert (again.people, again.tables, again.rules) == (
        policy.people, policy.tables, policy.rules,
    )  # fmt: skip


def test_names_of_tables_may_be_anything() -> None:
    odd = Policy(
        people=PeopleSection('a "b".c', "ключ"),
        tables={"x.y": TableSection('a "b".c', ("k k",), columns=(Column("é", Kind.INTEGER),))},
    )
    again = parse_policy(dump_policy(odd))
    assert (again.people, again.tables) == (odd.people, odd.tables)


def test_a_single_table_may_have_an_order() -> None:
    policy = parse_policy(
        '[people]\norder = "year"\n[columns.id]\nkind = "text"\nrole = "person"\n'
    )
    assert policy.people.order == ("year",)
    assert policy.tables == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[people]\ntabel = 'x'\n", r"\[people\].*'tabel'.*'table'"),
        ("[people]\ntable = 3\n", r"'table' in \[people\]"),
        ("[people]\nkey = 'id'\n", r"\[people\] key.*person"),
        ("[people]\ntable = 'p'\norder = 'year'\n", "order"),
        ("[people]\norder = ['a', 'a']\n", "'order'.*different"),
        ("people = 3\n", r"\[people\]"),
        ("[tables]\nvisits = 3\n", r"\[tables.visits\]"),
        ("[tables.visits]\nparnt = 'p'\n", r"\[tables.visits\].*'parnt'.*'parent'"),
        ("[tables.visits]\nlink = 3\n", r"'link' in \[tables.visits\]"),
        ("[tables.visits]\nrole = 'lookup'\n", r"\[tables.visits\].*'lookup'.*'look-up'"),
        ("[tables.visits]\ncolumns = 3\n", r"\[tables.visits.columns"),
        ("[tables.visits.columns.age]\nkind = 'x'\nrole = 'target'\n", r"visits\].*'age'.*'x'"),
        (HOSPITAL + "[columns.a]\nkind = 'text'\nrole = 'ignored'\n", r"\[columns\].*tables.NAME"),
        (HOSPITAL.replace('"visits"', '"vists"'), r"\[tables.labs\].*'vists'.*'visits'"),
        (HOSPITAL.replace('link = "patient_id"\n', ""), r"\[tables.visits\].*link.*'patients'"),
        (HOSPITAL.replace('role = "look-up"', 'key = "code"'), r"\[tables.icd\].*look-up.*ignored"),
        (HOSPITAL + "[tables.a]\nparent = 'icd'\nlink = 'x'\n", r"\[tables.a\].*'icd'.*'patients'"),
        (HOSPITAL.replace('parent = "patients"', 'parent = "labs"'), "circle.*labs.*visits"),
        (HOSPITAL.replace('parent = "patients"', 'parent = "visits"'), "circle.*visits -> visits"),
        (HOSPITAL + "[tables.a]\nparent = 'visits'\nlink = 'x'\nrole = 'look-up'\n", "drop one"),
        ("[people]\ntable = 'p'\n[tables.p]\nparent = 'p'\nlink = 'x'\n", "neither"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_table(text: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        parse_policy(text)


SDV = {
    "tables": {
        "guests": {
            "primary_key": "guest_email",
            "columns": {
                "guest_email": {"sdtype": "email", "pii": True},
                "hotel_id": {"sdtype": "id"},
                "amenities_fee": {"sdtype": "numerical"},
                "checkin": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
            },
        },
        "hotels": {
            "primary_key": "hotel_id",
            "columns": {"hotel_id": {"sdtype": "id"}, "city": {"sdtype": "categorical"}},
        },
    },
    "relationships": [
        {
            "parent_table_name": "hotels",
            "parent_primary_key": "hotel_id",
            "child_table_name": "guests",
            "child_foreign_key": "hotel_id",
        }
    ],
    "METADATA_SPEC_VERSION": "V1",
}


def test_the_metadata_of_sdv_are_a_policy() -> None:
    policy = parse_policy(json.dumps(SDV))
    assert policy.people.table == "hotels"
    guests = policy.tables["guests"]
    assert (guests.parent, guests.link, guests.key) == ("hotels", ("hotel_id",), ("guest_email",))
    assert [column.role.value for column in guests.columns] == [
        "identifier", "identifier", "quasi-identifier", "quasi-identifier",
    ]  # fmt: skip
    assert guests.columns[3].format == "%d %b %Y"


def test_the_metadata_of_a_sequence_are_a_policy_of_one_table() -> None:
    one = {
        "columns": {
            "id": {"sdtype": "id"},
            "day": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
            "steps": {"sdtype": "numerical"},
        },
        "sequence_key": "id",
        "sequence_index": "day",
    }
    policy = parse_policy(json.dumps(one))
    assert policy.named(Role.PERSON) == ["id"]
    assert policy.people.order == ("day",)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"tables": 3}',
        '{"tables": {"a": {}}}',
        '{"tables": {"a": {"columns": {}}}, "relationships": [{"child_table_name": "b"}]}',
    ],
)
def test_other_json_is_not_a_policy(text: str) -> None:
    with pytest.raises(PolicyError, match=r"SDV|JSON"):
        parse_policy(text)
