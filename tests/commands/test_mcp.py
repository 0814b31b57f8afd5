"""The server for agents: it answers without a cell of the data, and stays in its folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import polars as pl
import pytest

from tulle._mcp import INSTRUCTIONS, server, within
from tulle.errors import ParameterError

pytestmark = pytest.mark.slow

SECRETS = ("Zorvath", "Quimbly", "777123")


def write_people(folder: Path, rows: int = 300) -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, rows)
    table = {
        "name": [f"{SECRETS[i % 2]} {i}" for i in range(rows)],
        "age": age,
        "ward": rng.choice(["north", "south", "east"], rows),
        "cost": np.where(np.arange(rows) == 7, 777123, age * 20 + rng.integers(0, 400, rows)),
    }
    pl.DataFrame(table).write_csv(folder / "people.csv")


def asked(target: Any, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Call tools one after another by the client of the SDK."""
    from mcp import Client

    async def talk() -> list[Any]:
        async with Client(target) as client:
            return [await client.call_tool(name, given) for name, given in calls]

    return anyio.run(talk)


def told(answer: Any) -> dict[str, Any]:
    assert not answer.is_error, answer.content
    found: dict[str, Any] = answer.structured_content or json.loads(answer.content[0].text)
    return found.get("result", found) if set(found) == {"result"} else found


@pytest.mark.parametrize(
    "name",
    ["../x.csv", "/etc/passwd", "a/../../x.csv", "-o", "", "sqlite:///x.db#t", "x.db#t", "out.csv",
     "inner/out.csv", "inner", "."],
)  # fmt: skip
def test_nothing_outside_the_folder_is_named(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for link in (root / "out.csv", root / "inner" / "out.csv"):
        link.symlink_to(tmp_path / "secret.csv")
    with pytest.raises(ParameterError, match="not a file of the folder"):
        within(root.resolve(), name)
    assert within(root.resolve(), "new.csv") == "new.csv"


def test_no_answer_of_any_tool_holds_a_cell(tmp_path: Path) -> None:
    write_people(tmp_path)
    policy = {"policy": "people.policy.toml"}
    made = {"table": "people.csv", "output": "release.csv", "k": 20, "quick": True, **policy}
    calls = [
        ("inspect", {"table": "people.csv"}),
        ("condense", made),
        ("verify", {"release": "release.csv"}),
        ("estimate", {"release": "release.csv", "question": "mean(age)"}),
        ("inspect", {"table": "missing.csv"}),
        ("audit", {"original": "people.csv", "release": "release.csv", **policy}),
        ("explore", {"table": "people.csv", "output": "frontier", "k": "20", **policy}),
    ]
    answers = [told(answer) for answer in asked(server(tmp_path), *calls)]
    assert [answer["exit_code"] for answer in answers] == [0, 0, 0, 0, 2, 0, 0]
    assert answers[1]["chosen"]["k"] == 20
    assert answers[1]["verdict"]["privacy"]["level"]
    assert "missing.csv" in answers[4]["said"][0]
    text = json.dumps(answers)
    assert not [secret for secret in SECRETS if secret in text]
    assert (tmp_path / "release.csv.manifest.json").is_file()


def test_tools_refuse_other_places(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    write_people(tmp_path)
    people = {"table": "../people.csv"}
    calls = [("inspect", people), ("condense", {**people, "output": "../x.csv"})]
    calls += [("estimate", {"release": "x.csv", "question": "--population"})]
    for answer in asked(server(tmp_path / "root"), *calls):
        assert told(answer)["exit_code"] == 2
    assert list((tmp_path / "root").iterdir()) == []
    assert not (tmp_path / "x.csv").exists()


def test_the_command_serves_over_standard_input(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters

    words = ["-m", "tulle", "mcp", "--folder", str(tmp_path)]

    async def talk() -> tuple[list[Any], str | None]:
        started = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with Client(started) as client:
            return list((await client.list_tools()).tools), client.instructions

    tools, instructions = anyio.run(talk)
    names = [tool.name for tool in tools]
    assert names == ["inspect", "condense", "explore", "audit", "verify", "estimate"]
    assert instructions == INSTRUCTIONS
    fields = {field for tool in tools for field in tool.input_schema["properties"]}
    assert not fields & {"accept_risk", "force", "seed"}


def test_estimates_are_those_of_releases_and_never_of_an_original(tmp_path: Path) -> None:
    write_people(tmp_path)
    question = {"release": "people.csv", "question": "total(cost) where cost > 700000"}
    answer = told(asked(server(tmp_path), ("estimate", question))[0])
    assert answer["exit_code"] != 0
    assert "777123" not in json.dumps(answer)
    assert "manifest" in answer["said"][0]
