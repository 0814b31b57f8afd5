"""Options of commands: given, else the policy's, else the defaults; and how errors call them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tulle._checks import check_int
from tulle._choices import GATES, GROUPINGS, HIDING_METHODS
from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files
from tulle._commands.audit import audit_files
from tulle._commands.condense import condense
from tulle.errors import DataError, OutputExists, ParameterError, PolicyError, PrivacyError


@dataclass(frozen=True)
class Sizes(Options):
    k: int = 10
    min_group: int | None = None
    time: float | None = None


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "p.toml"
    path.write_text("[condense]\nk = 5\nmin_group = 3\n")
    return path


def test_what_is_given_comes_before_the_policy_and_that_before_the_defaults(policy: Path) -> None:
    assert resolve("condense", Sizes(), None, {}).values() == {
        "k": 10,
        "min_group": None,
        "time": None,
    }
    found = resolve("condense", Sizes(), policy, {"k": 7, "min_group": None})
    assert (found.k, found.min_group, found.time) == (7, 3, None)
    assert found.on_command_line("k")
    assert not found.on_command_line("min_group")
    assert found.word("min_group") == f"{policy}: 'min_group' in [condense]"
    assert found.word("time") == "--time"


def test_unknown_names_are_refused_with_the_nearest_one(policy: Path) -> None:
    with pytest.raises(ParameterError, match="'min_group'"):
        resolve("condense", Sizes(), None, {"min_grup": 3})
    policy.write_text("[condense]\nkk = 5\n")
    with pytest.raises(PolicyError, match=r"p\.toml.*'kk'"):
        resolve("condense", Sizes(), policy, {})


def test_an_error_calls_the_parameter_as_the_user_does(policy: Path) -> None:
    given = resolve("condense", Sizes(), None, {"min_group": 1})
    with pytest.raises(ParameterError) as found, given.naming():
        check_int("ClassCondenser", "min_group", given.min_group, 2)
    assert str(found.value) == "--min-group must be an int in the range [2, inf). Got 1 instead."
    assert found.value.parameter == "min_group"
    kept = resolve("condense", Sizes(), policy, {})
    with pytest.raises(PolicyError) as wrong, kept.naming():
        check_int("Condenser", "k", kept.k, 6)
    assert str(wrong.value).startswith(f"{policy}: 'k' in [condense] must be an int")


def test_an_error_keeps_its_class_and_is_named_once(policy: Path) -> None:
    kept = resolve("condense", Sizes(), policy, {})
    with pytest.raises(PrivacyError) as found, kept.naming(), kept.naming():
        raise PrivacyError("3 records are too few", parameter="k")
    assert str(found.value) == f"{policy}: 'k' in [condense]: 3 records are too few"
    with pytest.raises(ParameterError, match="--time"), kept.naming():
        check_int("Condenser", "time_budget", -1, 0)
    with pytest.raises(DataError, match="'ill'"), kept.naming(y="the target 'ill'"):
        raise DataError("is missing", parameter="y", subject="y")


def test_what_is_no_option_is_named_as_the_library_does() -> None:
    with pytest.raises(ParameterError, match="'rows'"), Sizes().naming():
        check_int("read", "rows", 0, 1)


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"reads": {"INPUT": "absent.csv"}}, DataError, r"absent\.csv"),
        ({"reads": {"INPUT": "https://h/t.csv"}}, DataError, r"t\.csv"),
        ({"reads": {"INPUT": "in.csv"}, "release": "old.csv"}, OutputExists, "exists already"),
        ({"reads": {"INPUT": "in.csv"}, "report": "r.pdf"}, ParameterError, "r.pdf"),
        ({"reads": {"INPUT": "in.csv"}, "writes": {"--output": "link"}}, ParameterError, "same"),
        ({"reads": {}, "release": "r.csv", "report": "./r.csv"}, ParameterError, "same file"),
    ],
)
def test_names_of_files_are_checked_first(
    arguments: dict[str, Any],
    error: type[Exception],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in.csv", "old.csv"):
        Path(name).write_text("a\n1\n")
    Path("link").hardlink_to("in.csv")
    with pytest.raises(error, match=words):
        check_files(**arguments, force=False)


def test_each_choice_has_its_code() -> None:
    from tulle.auditing._gates import _ATTACKS
    from tulle.condense.groupings import _HOMES
    from tulle.rules.hider import SIMPLE

    assert set(GROUPINGS) == set(_HOMES)
    assert set(HIDING_METHODS) == {"best", "swa", "blocking", *SIMPLE}
    assert set(GATES) == {*_ATTACKS, "min_accuracy_ratio"}


@pytest.mark.slow
def test_a_policy_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may change while a command runs: half of the old one and half of the new is neither."""
    rows = "".join(f"{20 + n % 40},{n % 3}\n" for n in range(80))
    source, release, policy = (tmp_path / name for name in ("t.csv", "r.csv", "p.toml"))
    source.write_text("age,visits\n" + rows)
    policy.write_text(
        '[columns.age]\nkind = "integer"\nrole = "quasi-identifier"\n'
        '[columns.visits]\nkind = "integer"\nrole = "quasi-identifier"\n'
        '[rules]\nfirst = "age > visits"\n[context]\npurpose = "a test"\n'
    )
    reads = []
    read_text = Path.read_text

    def counted(path: Path, *args: Any, **kwargs: Any) -> str:
        reads.append(path)
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", counted)
    condense(source, release, policy=policy, k=5, audit=False, seed=0)
    assert reads.count(policy) == 1
    found = audit_files(source, release, policy=policy, attempts=10, seed=0)
    assert reads.count(policy) == 2
    assert found.result["context"]["purpose"] == "a test"
