"""The surface: what `tulle` exports, how it is documented, and what stays behind an underscore."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tulle

ROOT = Path(__file__).parent.parent
NAMES = sorted(tulle._HOMES)
HEAVY = {"numpy", "scipy", "sklearn", "numba", "polars", "pandas", "pyarrow", "altair", "narwhals"}
NOT_VERBS = {
    "a",
    "an",
    "the",
    "what",
    "which",
    "how",
    "whether",
    "all",
    "one",
    "every",
    "each",
    "of",
}


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(found.stdout.split())


def test_public_names_are_sorted_and_there() -> None:
    assert tulle.__all__ == sorted(tulle.__all__)
    for name in tulle.__all__:
        assert getattr(tulle, name) is not None
    assert dir(tulle) == tulle.__all__


def test_import_costs_nothing() -> None:
    assert not loaded_by("import tulle") & HEAVY


@pytest.mark.slow
def test_listing_the_commands_loads_no_library() -> None:
    listing = (
        "from click.testing import CliRunner; from tulle.cli import tulle; "
        "assert CliRunner().invoke(tulle, ['--help']).exit_code == 0; sys.stdout = sys.__stdout__"
    )
    assert not loaded_by(listing) & HEAVY


def test_type_checkers_see_the_same_names() -> None:
    stub = ast.parse((ROOT / "src/tulle/__init__.pyi").read_text())
    seen = {
        alias.name: f"tulle.{node.module}"
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert seen == tulle._HOMES


# --- modules -------------------------------------------------------------------------------------


def test_a_module_without_an_underscore_defines_a_public_name() -> None:
    homes = set(tulle._HOMES.values())
    stray = [
        module.name
        for module in pkgutil.walk_packages(tulle.__path__, "tulle.")
        if not module.ispkg
        and not any(part.startswith("_") for part in module.name.split("."))
        and not module.name.startswith("tulle.cli.commands.")
        and module.name not in homes
    ]
    assert stray == []


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_lives_where_no_underscore_is(name: str) -> None:
    assert "._" not in tulle._HOMES[name]


def sources() -> Iterator[tuple[str, str]]:
    """Yield the Python that users read: the README, the guide, the examples."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for number, snippet in enumerate(
            re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
        ):
            yield f"{page.name}#{number}", snippet
    for example in sorted((ROOT / "examples").glob("*.py")):
        yield example.name, example.read_text()


@pytest.mark.parametrize("source", [pytest.param(text, id=name) for name, text in sources()])
def test_users_import_from_tulle_alone(source: str) -> None:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tulle":
            assert node.module == "tulle"
            assert {alias.name for alias in node.names} <= set(tulle.__all__)
        if isinstance(node, ast.Import):
            deep = [alias.name for alias in node.names if alias.name.startswith("tulle.")]
            assert deep == []


# --- docstrings ----------------------------------------------------------------------------------


def sections(text: str) -> dict[str, str]:
    """Split a numpydoc docstring at its underlined titles; the text before them is ''."""
    parts = re.split(r"(?m)^(\w[\w ]*)\n-{3,}$", text)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2]))


def documented(section: str) -> set[str]:
    """Return the names that a section such as Parameters describes."""
    heads = re.findall(r"(?m)^([\w*][\w, *]*?)(?: :.*)?$", section)
    return {name.strip("* ") for head in heads for name in head.split(",")}


def described(thing: Any) -> dict[str, str]:
    """Return the sections of a docstring after checking its first line."""
    text = inspect.getdoc(thing)
    assert text, "no docstring"
    summary = text.split("\n")[0]
    first = summary.split()[0]
    assert summary.endswith("."), f"the summary is one sentence on one line: {summary}"
    assert first.lower() not in NOT_VERBS, f"the summary begins with a verb: {summary}"
    assert first[0].isupper(), f"the summary begins with a capital: {summary}"
    assert not first.endswith(("s", "ing")), f"'Compute', not 'Computes': {summary}"
    return sections(text)


def check_call(thing: Any, *, title: str = "Parameters") -> None:
    """Check that every parameter and what comes back are described."""
    found = described(thing)
    signature = inspect.signature(thing)
    names = {name for name in signature.parameters if name not in ("self", "cls")}
    assert names <= documented(found.get(title, "")), "parameters without a description"
    if signature.return_annotation not in (None, "None", "Self", inspect.Signature.empty):
        assert "Returns" in found or "Yields" in found, "what it returns is not described"


def methods() -> Iterator[tuple[type, str, Any]]:
    """Yield the public methods that our own classes define."""
    for name in NAMES:
        thing = getattr(tulle, name)
        for label, member in vars(thing).items() if inspect.isclass(thing) else ():
            call = getattr(member, "__func__", member)
            if not label.startswith("_") and inspect.isfunction(call):
                yield thing, label, call


@pytest.mark.parametrize("name", tulle.spark.__all__)
def test_every_function_for_spark_has_a_numpydoc_docstring(name: str) -> None:
    check_call(getattr(tulle.spark, name))
    assert "Examples" in sections(inspect.getdoc(getattr(tulle.spark, name)) or "")


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_numpydoc_docstring(name: str) -> None:
    thing = getattr(tulle, name)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        described(thing)
    elif inspect.isclass(thing):
        found = described(thing)
        assert "Examples" in found
        if not hasattr(thing, "__members__"):  # an enumeration has values, not parameters
            names = set(inspect.signature(thing).parameters)
            assert names <= documented(found.get("Parameters", ""))
    else:
        check_call(thing)
        assert "Examples" in sections(inspect.getdoc(thing) or "")


@pytest.mark.parametrize(
    "method", [pytest.param(call, id=f"{kind.__name__}.{name}") for kind, name, call in methods()]
)
def test_every_public_method_has_a_numpydoc_docstring(method: Any) -> None:
    check_call(method)


def test_the_reference_lists_every_public_name_once() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    listed = re.findall(r"(?m)^\.\. auto(?:class|function|exception):: tulle\.(\w+)$", page)
    assert sorted(listed) == NAMES


def test_every_public_name_is_imported_from_its_home() -> None:
    for name, home in tulle._HOMES.items():
        assert getattr(importlib.import_module(home), name) is getattr(tulle, name)
