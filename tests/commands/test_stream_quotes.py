"""Texts with line breaks in a stream of CSV: each is one text, and no part of it a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.streams import OPTIONS, rows, same_groups, write_csv
from tulle._commands.stream import stream

pytestmark = pytest.mark.slow

BROKEN = ['41,100.0,"Bern', "42,200.0,Chur,4,a", '43,300.0,Sion",4,a', "44,400.0,Bern,4,b"]


def lines_with_a_broken_text(path: Path) -> list[str]:
    """170 records, of which one waits, then a text of three lines and one more record."""
    lines = write_csv(path, rows(170)).read_text().splitlines()
    return lines + BROKEN


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_restart_inside_of_a_text_takes_no_part_of_it(tmp_path: Path, cut: int) -> None:
    lines = lines_with_a_broken_text(tmp_path / "in.csv")
    at = len(lines) - len(BROKEN) + cut
    for name, ends in (("once", [len(lines)]), ("twice", [at, len(lines)])):
        source = tmp_path / f"{name}.csv"
        for end in ends:
            source.write_text("\n".join(lines[:end]) + "\n")
            done = stream(str(source), tmp_path / name, state=tmp_path / f"{name}.st", **OPTIONS)
        # one of a high level waits, and a city of three lines, which nobody else has
        assert (done.summary["condensed"], done.summary["waiting"]) == (170, 2)
        assert done.summary["rejected"] == 0
    same_groups(tmp_path / "once.st", tmp_path / "twice.st")


def test_a_quote_that_is_open_at_the_end_is_read_when_it_is_closed(tmp_path: Path) -> None:
    lines = lines_with_a_broken_text(tmp_path / "in.csv")
    (tmp_path / "in.csv").write_text("\n".join(lines[:-2]))
    options = {**OPTIONS, "state": tmp_path / "st"}
    done = stream(str(tmp_path / "in.csv"), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["rejected"]) == (170, 0)
    assert any("line 172" in note and "not closed" in note for note in done.notes)


def test_records_of_several_lines_wait(tmp_path: Path) -> None:
    made = rows(170)
    for row in made:
        row["city"] = f'"{row["city"]}\n"'
    source = write_csv(tmp_path / "in.csv", made[:160])
    options = {**OPTIONS, "state": tmp_path / "st"}
    done = stream(str(source), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["waiting"]) == (160, 1)
    write_csv(source, made)
    done = stream(str(source), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["rejected"]) == (170, 0)
    stream(str(source), tmp_path / "o2", **{**options, "state": tmp_path / "once"})
    same_groups(tmp_path / "once", tmp_path / "st")


def test_a_text_ends_with_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lines = lines_with_a_broken_text(folder / "1.csv")
    (folder / "1.csv").write_text("\n".join(lines[:-3]) + "\n")
    (folder / "2.csv").write_text("\n".join([lines[0], *lines[1:30]]) + "\n")
    done = stream(str(folder), tmp_path / "out", state=tmp_path / "st", kind="csv", **OPTIONS)
    assert (done.summary["seen"], done.summary["rejected"]) == (170 + 29, 1)
