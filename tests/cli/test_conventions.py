"""What every command does alike."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import warnings
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from tulle import __version__
from tulle.cli import _output as output
from tulle.cli import main, tulle
from tulle.errors import PrivacyWarning, TulleError
from tulle.releases import Manifest, write_release


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tulle", *arguments], capture_output=True, text=True
    )


def commands() -> list[str]:
    return tulle.list_commands(tulle.make_context("tulle", [], resilient_parsing=True))


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help(name: str) -> None:
    result = CliRunner().invoke(tulle, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_help_lists_every_command_by_its_name() -> None:
    listed = CliRunner().invoke(tulle, ["--help"]).output
    assert all(f" {name} " in listed for name in commands())


@pytest.mark.parametrize("words", [("condense", "--report"), ("tune", "--report"), ("audit", "-o")])
def test_a_report_of_unknown_format_is_refused_before_any_work(
    words: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    table = str(tmp_path / "t.csv")
    other = {"condense": ["-o", str(tmp_path / "r.csv")], "tune": [], "audit": [table]}[words[0]]
    result = CliRunner().invoke(tulle, [words[0], table, *other, words[1], "report.pdf"])
    assert result.exit_code == 2
    assert ".html" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.slow
def test_version_and_unknown_command() -> None:
    assert __version__ in run("--version").stdout
    wrong = run("verfy")
    assert wrong.returncode == 2
    assert "did you mean 'verify'?" in wrong.stderr


def test_users_mistake_is_one_line_without_traceback() -> None:
    result = run("verify", "no-such-file")
    assert result.returncode == 2
    assert result.stderr.startswith("tulle: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.slow
def test_debug_shows_frames_and_no_locals() -> None:
    result = run("verify", "no-such-file", "--debug")
    assert result.returncode == 2
    assert "release.py" in result.stderr
    assert "locals" not in result.stderr


@pytest.mark.slow
def test_verify_exit_codes_and_json(tmp_path: Path) -> None:
    made = Manifest("test", {}, {"k": 2}, {"groups of at least 2": True})
    write_release(tmp_path / "r", lambda file: file.write(b"x"), made)
    good = run("verify", str(tmp_path / "r"), "--json")
    assert good.returncode == 0
    assert json.loads(good.stdout)["holds"] is True
    (tmp_path / "r").write_bytes(b"y")
    bad = run("verify", str(tmp_path / "r"))
    assert bad.returncode == 1
    assert "no" in bad.stdout


def test_completion_script_is_printed() -> None:
    environment = {**os.environ, "_TULLE_COMPLETE": "bash_source"}
    result = subprocess.run(
        [sys.executable, "-m", "tulle"], env=environment, capture_output=True, text=True
    )
    assert "complete" in result.stdout


def test_progress_is_shown_on_a_terminal_only() -> None:
    code = (
        "from tulle._progress import bar, shown\n"
        "with shown(), bar('Grouping', 2) as advance:\n    advance(); advance(note='better')\n"
    )
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert piped.stdout == piped.stderr == ""
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
    os.close(theirs)
    assert b"Grouping" in os.read(ours, 65536)
    os.close(ours)


def test_a_narrow_terminal_breaks_headings_before_names_and_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"snapshot": "snapshot-000001.parquet", "seen": 600_000, "released": 600_000}
    rows = [row | {"fewest_newcomers": fewest, "held_back": 0} for fewest in (None, 12)]
    for width, heading in ((80, "newcomers"), (56, "fewest newcomers")):
        monkeypatch.setenv("COLUMNS", str(width))
        output.show({"seen": 600_000}, title="Stream", tables={"releases": rows})
        shown = capsys.readouterr().out
        assert heading in shown
        assert "snapshot-000001.parquet" in shown
        assert "600,000" in shown
    assert "releases (2 of 2)" in shown  # a row below the other, where a table does not fit


def test_names_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[bold]a[/x] :heart: \\"
    output.show({"table": name}, title="T", tables={"t": [{"column": name}]}, notes=[name])
    assert capsys.readouterr().out.count(name) == 3


def test_spaces_of_all_kinds_are_shown_and_only_what_steers_is_escaped() -> None:
    kept = "97.1\N{NO-BREAK SPACE}%, 1\N{NARROW NO-BREAK SPACE}000, a\N{THIN SPACE}b, größe\n"
    assert output.printable(kept) == kept
    steering = "\t\r\x1b\x7f\x9b\x85\u2028\u2029\u202e\u2066\u200f"
    shown = "\\t\\r\\x1b\\x7f\\x9b\\x85\\u2028\\u2029\\u202e\\u2066\\u200f"
    assert output.printable(steering) == shown


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_narrow_terminal_cuts_no_word(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    row = {
        "column": "Number of children",
        "kind": "category",
        "role": "quasi-identifier",
        "missing": 0,
        "distinct": 1_234,
        "action": "condense class by class",
        "reason": "nothing says that others cannot know it",
    }
    output.show({}, title="Inspect", tables={"columns": [row, row | {"column": "Email opt-in"}]})
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert set(words) >= {word for cell in row.values() for word in output._text(cell).split()}


def test_names_of_columns_wrap_before_sentences_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    measures = [f"{name}_{when}" for name in ("support", "confidence") for when in ("old", "new")]
    row = {"rule": "bread, milk, butter -> beer", **dict.fromkeys(measures, 0.25)}
    output.show({}, title="Hidden", tables={"rules": [row]})
    shown = capsys.readouterr().out
    assert row["rule"] in shown
    assert "confidence old" not in shown


def test_json_has_neither_nan_nor_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"loss": float("nan"), "all": [float("inf"), 1.5]}
    output.show(row, title="T", as_json=True, tables={"t": [row]})
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    shown = {"loss": None, "all": [None, 1.5]}
    assert found == {**shown, "t": [shown], "notes": []}


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_reader_that_goes_away_is_no_failed_guarantee(tmp_path: Path, as_json: list[str]) -> None:
    made = Manifest("test", {}, {"k": 2}, {"groups of at least 2": True})
    write_release(tmp_path / "r", lambda file: file.write(b"x"), made)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "tulle", "verify", str(tmp_path / "r"), *as_json]
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert result.returncode == 2
    assert (
        result.stderr
        == "tulle: the output was closed by its reader; the command itself completed\n"
    )


@pytest.mark.parametrize(
    "error, code, words",
    [
        (KeyboardInterrupt(), 130, "interrupted: "),
        (pl.exceptions.PanicException("Smith"), 2, "unexpected PanicException"),
        (ZeroDivisionError("Smith"), 2, "unexpected ZeroDivisionError"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
    ],
)
def test_whatever_happens_ends_in_one_line_without_a_cell(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    words: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(sys, "argv", ["tulle", "--debug", "verify", "r"])
    monkeypatch.setattr("tulle._commands.verify.verify_release", fail)
    with pytest.raises(SystemExit) as stop:
        main()
    told = capsys.readouterr().err
    assert stop.value.code == code
    assert words in told
    assert "Smith" not in told


def test_shells_complete_files() -> None:
    words = {"COMP_WORDS": "tulle inspect peo", "COMP_CWORD": "2"}
    environment = {**os.environ, **words, "_TULLE_COMPLETE": "bash_complete"}
    result = subprocess.run(
        [sys.executable, "-m", "tulle"], env=environment, capture_output=True, text=True
    )
    assert result.stdout.startswith("file,")


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_warnings_are_lines_for_users_and_those_of_others_tell_no_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], debug: list[str]
) -> None:
    def warn(*_: object, **__: object) -> None:
        warnings.simplefilter("default")
        warnings.warn("3 groups are all alike", PrivacyWarning, stacklevel=1)
        warnings.warn("cannot convert 'Smith'", RuntimeWarning, stacklevel=1)
        raise TulleError("the end")

    monkeypatch.setattr(sys, "argv", ["tulle", "verify", "r", *debug])
    monkeypatch.setattr("tulle._commands.verify.verify_release", warn)
    shown = warnings.showwarning
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().err
    assert told.startswith("tulle: warning: 3 groups are all alike\n")
    assert told.endswith("tulle: the end\n")
    assert ("RuntimeWarning at" in told) is bool(debug)
    assert "Smith" not in told
    assert warnings.showwarning is shown


def test_a_warning_is_not_repeated_as_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"a": [1, 2] * 100, "b": [2.5, 3.5] * 100}).write_csv("t.csv")
    monkeypatch.setattr(sys, "argv", ["tulle", "condense", "t.csv", "-o", "r.csv", "--k", "10"])
    with pytest.raises(SystemExit) as stop, warnings.catch_warnings():
        warnings.simplefilter("default")
        main()
    told = capsys.readouterr()
    assert stop.value.code == 0
    assert told.err.count("4 of 4 groups") == 1
    assert "4 of 4 groups" not in told.out


def test_the_seed_of_an_audit_is_that_of_its_attacks() -> None:
    told = CliRunner().invoke(tulle, ["audit", "--help"]).output
    assert "Repeat the attacks exactly" in " ".join(told.split())


@pytest.mark.slow
def test_names_do_not_steer_a_terminal_nor_need_one_that_knows_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("größe\x1b[31m,b\n1,2\n3,4\n")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tulle", "inspect", "t.csv"]
    shown = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert b"\\x1b[31m" in shown.stdout
    assert b"\x1b" not in shown.stdout
    wrong = [*command, "-o", "no\x1bsuch/p.toml"]
    told = subprocess.run(wrong, capture_output=True, cwd=tmp_path, env=environment).stderr
    assert told == b"tulle: the folder no\\x1bsuch does not exist\n"
