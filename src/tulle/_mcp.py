"""``tulle mcp``: the commands of Tulle as tools of an agent, over standard input and output.

A tool runs a command in a process of its own with ``--json``, and answers with what it printed:
counts, verdicts and names of columns. Files are named within one folder, and nothing outside it is
read or written, whatever links there are. What takes a person's word stays with people: no tool
accepts a risk, replaces a file or takes a seed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tulle.errors import DataError, ParameterError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

INSTRUCTIONS = (
    "Make releases of tables about people, in one folder. Begin with inspect, let a person read "
    "the policy that it writes, then condense with it. An answer has a verdict on privacy and one "
    "on use; where privacy is bad nothing is written, and only a person can accept that."
)


def serve(folder: str | os.PathLike[str]) -> None:
    """Serve the tools of a folder until standard input ends."""
    root = Path(folder).resolve()
    if not root.is_dir():
        raise DataError(f"{folder} is not a folder: create it, or name another one")
    try:
        server(root).run("stdio")
    except ModuleNotFoundError as error:
        raise DataError(
            f"the server needs the package '{error.name}': pip install 'tulle[mcp]'"
        ) from None


def within(root: Path, name: str) -> str:
    """Return a name of the folder as commands that run in it write it; raise for any other."""
    wrong = f"'{name}' is not a file of the folder: name one without '..', links and addresses"
    if not name or name.startswith("-") or "://" in name or "#" in name or "\0" in name:
        raise ParameterError(wrong)
    path = (root / name).resolve()
    parts = path.rglob("*") if path.is_dir() else ()
    if not path.is_relative_to(root) or not all(
        part.resolve().is_relative_to(root) for part in parts
    ):
        raise ParameterError(wrong)
    return str(path.relative_to(root))


def server(root: Path) -> MCPServer[Any]:
    """Return the server of a folder."""
    from mcp.server.mcpserver import MCPServer

    found: MCPServer[Any] = MCPServer("tulle", instructions=INSTRUCTIONS, log_level="ERROR")

    async def run(command: str, *files: str, question: str = "", **options: Any) -> dict[str, Any]:
        """Run a command on files; options that name files end in ``_file``."""
        try:
            words = [command, *(within(root, name) for name in files)]
            for name, value in options.items():
                option = "--" + name.removesuffix("_file").replace("_", "-")
                if value is True:
                    words.append(option)
                elif value:
                    text = within(root, value) if name.endswith("_file") else str(value)
                    words.append(f"{option}={text}")
            if question.startswith("-"):
                raise ParameterError("a question does not begin with '-': write one, as mean(age)")
        except ParameterError as error:
            return {"exit_code": 2, "said": [str(error)]}
        return await _told(root, [*words, *([question] if question else [])])

    @found.tool()
    async def inspect(table: str) -> dict[str, Any]:
        """Find kinds and roles of columns and who stands out; writes NAME.policy.toml to edit."""
        return await run("inspect", table)

    @found.tool()
    async def condense(
        table: str, output: str, policy: str = "", report: str = "", k: int = 0, quick: bool = False
    ) -> dict[str, Any]:
        """Make a look-alike table; without k, the smallest that withstands the attacks."""
        files = {"output_file": output, "policy_file": policy, "report_file": report}
        return await run("condense", table, **files, k=k, quick=quick)

    @found.tool()
    async def explore(
        table: str, output: str, policy: str = "", k: str = "10,20,50", quick: bool = True
    ) -> dict[str, Any]:
        """Attack and use releases of several k; points and a page go into the folder output."""
        files = {"output_file": output, "policy_file": policy}
        return await run("explore", table, **files, k=k, quick=quick)

    @found.tool()
    async def audit(
        original: str, release: str, policy: str = "", control: str = "", output: str = ""
    ) -> dict[str, Any]:
        """Measure what a release lost and attack it, next to a control if there is one."""
        files = {"policy_file": policy, "control_file": control, "output_file": output}
        return await run("audit", original, release, **files)

    @found.tool()
    async def verify(release: str) -> dict[str, Any]:
        """Check that a release is the file that its manifest describes."""
        return await run("verify", release)

    @found.tool()
    async def estimate(release: str, question: str) -> dict[str, Any]:
        """Answer a question such as mean(age) by ward from a release, with intervals."""
        proven = await run("verify", release)  # of an original, an answer may be one person's
        if proven["exit_code"]:
            return proven
        return await run("estimate", release, question=question)

    return found


async def _told(root: Path, words: list[str]) -> dict[str, Any]:
    """Run a command in the folder and return its JSON, with what it said where it failed."""
    import anyio

    done = await anyio.run_process(
        [sys.executable, "-m", "tulle", *words, "--json"], cwd=root, check=False
    )
    try:
        told = json.loads(done.stdout)
    except ValueError:
        told = {}
    said = done.stderr.decode(errors="replace").splitlines()
    problems = [line.removeprefix("tulle: ") for line in said if line.startswith("tulle: ")]
    return {"exit_code": done.returncode, **told, **({"said": problems} if done.returncode else {})}
