from __future__ import annotations

import subprocess
import sys

import tulle


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(found.stdout.split())


HEAVY = {"numpy", "scipy", "sklearn", "numba", "polars", "pandas", "pyarrow", "altair", "narwhals"}


def test_public_names_are_sorted_and_there() -> None:
    assert tulle.__all__ == sorted(tulle.__all__)
    for name in tulle.__all__:
        assert getattr(tulle, name) is not None
    assert dir(tulle) == tulle.__all__


def test_import_costs_nothing() -> None:
    assert not loaded_by("import tulle") & HEAVY


def test_listing_the_commands_loads_no_library() -> None:
    listing = (
        "from click.testing import CliRunner; from tulle.cli import tulle; "
        "assert CliRunner().invoke(tulle, ['--help']).exit_code == 0; sys.stdout = sys.__stdout__"
    )
    assert not loaded_by(listing) & HEAVY
