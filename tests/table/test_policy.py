from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.errors import OutputExists, PolicyError
from tulle.table.policy import Policy, dump_policy, load_policy, parse_policy, write_policy
from tulle.table.schema import Column, Kind, Role

AGE = '[columns.age]\nkind = "integer"\nrole = "quasi-identifier"\n'

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
numbers = st.floats(-1e300, 1e300) | st.integers(-(2**60), 2**60)
options = st.recursive(
    numbers | st.booleans() | names, lambda inner: st.lists(inner, max_size=3), max_leaves=4
)


@st.composite
def columns(draw: st.DrawFn) -> tuple[Column, ...]:
    made = []
    once = (Role.PERSON, Role.TARGET, Role.LEVEL, Role.WEIGHT)
    roles = [role for role in Role if role not in once]
    for name in draw(st.lists(names, max_size=4, unique=True)):
        kind = draw(st.sampled_from(Kind))
        low, high = sorted(draw(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))))
        bounds = (
            (low, high) if kind in (Kind.INTEGER, Kind.DECIMAL) and draw(st.booleans()) else None
        )
        weight = draw(st.floats(0.001, 1000))
        made.append(Column(name, kind, draw(st.sampled_from(roles)), weight, bounds))
    return tuple(made)


@pytest.mark.guarantee
@given(columns(), st.dictionaries(names, options, max_size=3), names)
def test_a_policy_comes_back_as_it_was_written(
    listed: tuple[Column, ...], condense: dict[str, object], made_for: str
) -> None:
    policy = Policy(listed, {"condense": condense})
    found = parse_policy(dump_policy(policy, made_for=made_for))
    assert found.columns == policy.columns
    assert dict(found.parameters["condense"]) == condense


def test_reasons_survive() -> None:
    column = Column("age", Kind.INTEGER, reason="others may\nknow it")
    text = dump_policy(Policy((column,)), made_for="people.csv")
    assert parse_policy(text).columns == (column,)
    assert text.startswith("# A policy of Tulle for people.csv.")
    assert "quasi-identifier   others may know it" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (AGE + AGE, "line 4"),
        (AGE + 'role = "target"\n', "line 4.*'role'"),
        (AGE.replace("integer", "intger"), "'intger'.*'integer'"),
        (AGE.replace("quasi-id", "quasi id"), "'quasi-identifier'"),
        (AGE + "wieght = 2\n", "'wieght'.*'weight'"),
        (AGE + "weight = 0\n", "'age'"),
        (AGE + "weight = 1e300\n", "'age'"),
        (AGE + "weight = true\n", "'age'"),
        (AGE + "bounds = [3, 1]\n", "highest"),
        (AGE + 'bounds = "0-120"\n', "highest"),
        (AGE.replace("integer", "category") + "bounds = [1, 2]\n", "category"),
        (AGE + "missing = 9999\n", "'missing'.*'age'"),
        (AGE + "missing = [true]\n", "'missing'.*'age'"),
        (AGE + "codes = {N = 1}\n", "'codes'.*'age'"),
        (AGE + "keep_rare = 1\n", "'keep_rare'.*'age'"),
        (AGE + "format = 3\n", "'format'.*'age'"),
        (AGE + "hierarchy = [3, 1]\n", "'age'.*hierarchy.*integer"),
        (AGE.replace("integer", "category") + "hierarchy = [1, 3]\n", "'hierarchy'.*'age'"),
        (AGE.replace("integer", "category") + "missing = [9]\n", "'age'.*'missing'.*category"),
        ('[columns.age]\nkind = "integer"\n', "'age'"),
        ('[columns.age]\nrole = "ignored"\n', "'age'"),
        ('[columns]\nage = "integer"\n', "columns"),
        ("[condnse]\nk = 3\n", "'condense'"),
        ("k = 3\n", r"no section \[k\]"),
        ("condense = 3\n", "condense"),
        ("[columns\n", "not valid TOML"),
        ("".join(f'[columns.{n}]\nkind = "category"\nrole = "target"\n' for n in "ab"), "'a'.*'b'"),
    ],
)
def test_wrong_policies(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(PolicyError, match=words) as caught:
        load_policy(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.exit_code == 2


def test_columns_are_those_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(AGE + AGE.replace("age", "sex"))
    assert [c.name for c in load_policy(path, ["sex", "age"]).resolve(["sex", "age"])] == [
        "sex",
        "age",
    ]
    with pytest.raises(PolicyError, match="'sex'.*'sexx'"):
        load_policy(path, ["age", "sexx"])
    with pytest.raises(PolicyError, match="'zip'"):
        load_policy(path, ["age", "sex", "zip"])
    frame = pl.DataFrame({"sex": [1], "age": [2]})
    assert [c.name for c in load_policy(path).resolve(frame)] == ["sex", "age"]
    assert parse_policy("[condense]\nk = 3\n").resolve(["age"]) == []


def test_options_of_a_command() -> None:
    policy = parse_policy('[condense]\nk = 3\ngrouping = "best"\n')
    assert policy.options("condense", ["k", "grouping", "seed"]) == {"k": 3, "grouping": "best"}
    assert policy.options("tune", ["k"]) == {}
    with pytest.raises(PolicyError, match="'k'"):
        policy.options("condense", ["grouping", "seed"])


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    policy = parse_policy(AGE)
    with pytest.raises(PolicyError):
        load_policy(path)
    write_policy(policy, path)
    assert load_policy(path) == policy
    with pytest.raises(OutputExists):
        write_policy(policy, path)
    write_policy(policy, path, force=True)
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(PolicyError):
        load_policy(path)
    with pytest.raises(PolicyError):
        load_policy(tmp_path)


def test_named() -> None:
    policy = parse_policy(AGE + '[columns.y]\nkind = "category"\nrole = "target"\n')
    assert policy.named(Role.TARGET) == ["y"]
    assert policy.named(Role.TARGET, Role.QUASI) == ["age", "y"]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('[rules]\na = "x <= y"\nb = ["x = y", "y = z"]\n', ("x <= y", "x = y", "y = z")),
        ('rules = ["x <= y"]\n', ("x <= y",)),
        ("[rules]\n", ()),
        ("", None),
    ],
)
def test_rules_come_under_any_name(text, rules):
    assert parse_policy(text).rules == rules


def test_rules_are_text():
    with pytest.raises(PolicyError, match=r"'a' in \[rules\]"):
        parse_policy("[rules]\na = 3\n")


def test_rules_are_written_with_their_reasons_and_read_back():
    rule = 'sex = "m" only if `a "b"` > 0'
    text = dump_policy(Policy(rules=(rule, "x <= y"), rule_reasons={rule: "all of 10\nrecords"}))
    assert "  # all of 10 records\n" in text
    assert parse_policy(text).rules == (rule, "x <= y")
