"""What users say of columns, in any form, as one schema."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tulle import ClassCondenser, Condenser, StreamCondenser
from tulle.errors import DataError, ParameterError, TulleError
from tulle.table.schema import Column, Kind, Role, Schema, kind_of

TABLE = pl.DataFrame(
    {
        "name": [f"person {place}" for place in range(60)],
        "zip": [8000 + place % 3 for place in range(60)],
        "age": [20 + place % 40 for place in range(60)],
        "level": [4] * 60,
    }
)
SAID = {"name": "identifier", "zip": "category", "level": Role.LEVEL}


def test_columns_come_in_any_form_and_are_completed_from_the_types():
    listed = [
        Column("zip", Kind.CATEGORY),
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("level", Kind.INTEGER, Role.LEVEL),
    ]
    forms = (SAID, listed, {column.name: column for column in listed})
    schemas = [Schema.of(form, TABLE) for form in forms]
    assert [list(schema) for schema in schemas] == [list(schemas[0])] * 3
    assert list(Schema.of(schemas[0], TABLE)) == list(schemas[0])
    assert schemas[0].names == TABLE.columns
    assert [column.kind for column in schemas[0]] == ["text", "category", "integer", "integer"]
    assert schemas[0].released == ["zip", "age"]
    assert schemas[0].named(Role.LEVEL, Role.IDENTIFIER) == ["name", "level"]
    assert "age" in schemas[0]
    assert schemas[0]["age"].role is Role.QUASI


@pytest.mark.slow
@pytest.mark.parametrize("make", [pl.DataFrame, pl.DataFrame.to_pandas], ids=["polars", "pandas"])
def test_every_condenser_takes_a_mapping_of_words(make):
    table = make(TABLE)
    released = Condenser(k=4, columns=SAID, random_state=0).fit_resample(table)
    assert type(released) is type(table)
    assert list(released.columns) == ["zip", "age"]
    assert set(released["zip"]) <= {8000, 8001, 8002}
    stream = StreamCondenser(k=4, columns=SAID, random_state=0).fit(table)
    assert list(stream.sample().columns) == ["zip", "age"]
    inner = Condenser(k=4, columns=SAID)
    X_new, _ = ClassCondenser(inner, random_state=0).fit_resample(table, np.arange(60) % 2)
    assert list(X_new.columns) == ["zip", "age"]


@pytest.mark.slow
def test_a_saved_stream_keeps_what_was_said_of_its_columns(tmp_path):
    stream = StreamCondenser(k=4, columns=SAID, random_state=0).fit(TABLE)
    stream.save(tmp_path / "state", waiting="plain")
    loaded = StreamCondenser.load(tmp_path / "state")
    assert loaded.columns == SAID
    assert loaded.sample().equals(stream.sample())


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"zipp": "category"}, DataError, "'zipp'.*'zip'"),
        ({"zip": "categories"}, ParameterError, "'zip'.*'category'"),
        ({"name": "identifer"}, ParameterError, "'name'.*'identifier'"),
        (["zip"], ParameterError, "'columns'"),
        ([Column("zip", Kind.CATEGORY)] * 2, DataError, "'zip'"),
        ({"age": Column("age", Kind.INTEGER, bounds=(9, 1))}, ParameterError, "wrong order"),
        ({"zip": Column("zip", Kind.CATEGORY, bounds=(1, 9))}, DataError, "'zip'"),
    ],
)
def test_what_is_wrongly_said_names_the_column_and_the_nearest_word(said, error, words):
    with pytest.raises(error, match=words):
        Schema.of(said, TABLE)
    with pytest.raises(TulleError, match=words):
        Condenser(k=4, columns=said).fit(TABLE)


def test_weights_are_given_by_name_or_in_order():
    schema = Schema.of({"age": Column("age", Kind.INTEGER, weight=3)}, TABLE)
    assert [column.weight for column in schema.weighted({"zip": 2})] == [1, 2, 3, 1]
    assert [column.weight for column in schema.weighted([4, 3, 2, 1])] == [4, 3, 2, 1]
    with pytest.raises(DataError, match="'weights'.*'agee'.*'age'"):
        schema.weighted({"agee": 1})
    with pytest.raises(ParameterError, match="2 entries.*4 columns"):
        schema.weighted([1, 2])


def test_text_of_different_values_is_free_text_once_the_table_is_complete():
    names = TABLE.select("name")
    assert Schema.of(None, names)["name"].kind is Kind.TEXT
    assert Schema.of(None, names, complete=False)["name"].kind is Kind.CATEGORY
    assert Schema.of(None, names[:4])["name"].kind is Kind.CATEGORY
    assert Schema.of({"name": "category"}, names)["name"].kind is Kind.CATEGORY


def test_columns_survive_json_by_name():
    column = Column("age", Kind.INTEGER, Role.SENSITIVE, 2.0, (0.0, 120.0), "because")
    assert Column.from_json(column.to_json()) == column
    written = Column("pay", Kind.DECIMAL, missing=("k.A.", 9), codes={"N": "none"}, format="1,5 €")
    coded = Column("icd", Kind.CATEGORY, keep_rare=True, hierarchy=(3, 1))
    for one in (written, coded):
        assert Column.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_kinds_follow_from_types():
    types = {pl.Int8(): "integer", pl.Float32(): "decimal", pl.Decimal(9, 2): "decimal"}
    types |= {pl.Date(): "datetime", pl.Duration("ms"): "datetime", pl.Boolean(): "boolean"}
    types |= {pl.String(): "category", pl.Enum(["a"]): "category", pl.Null(): "category"}
    assert {dtype: kind_of(dtype) for dtype in types} == types
