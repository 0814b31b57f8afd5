"""Stop commands at random moments, by SIGKILL or SIGINT, and look at what they leave.

``python -m tests.reference.stopping FOLDER SHARE SEED [NAME...]`` stops each command as often as it
says, times the share. Importing the libraries costs seconds, so this process imports them once and
forks for every run. It never uses them itself: threads do not survive a fork. Prints a row per
command as JSON.

Every command runs with one of two seeds in turn, so a release that is not one of two known ones is
a mixture. After a stop every release must be the old one or the new one; in the end the command
runs once more, undisturbed, and must leave its files and nothing else.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tulle._files import digest
from tulle.releases import manifest_path, read_manifest, settle

ROOT = Path(__file__).parents[2]
LONGEST = 600  # seconds that a run may take


class Command(NamedTuple):
    """A command, what it writes, and what else may be there."""

    arguments: tuple[str, ...]
    releases: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # whole or not there: JSON is read, others end with a newline
    seeded: bool = True
    stops: int = 100


PEOPLE, SHOP, NOTES = "../people.csv", "../shop.dat", "../notes.txt"
ACCEPTED = ("--accept-risk", "nobody is in these tables")
COMMANDS = {
    "condense": Command(
        ("condense", PEOPLE, "-o", "r.csv", "--k", "5", *ACCEPTED), ("r.csv",), stops=40
    ),
    "condense --report": Command(
        ("condense", PEOPLE, "-o", "r.parquet", "--k", "5", "--report", "r.json", *ACCEPTED),
        ("r.parquet",),
        ("r.json",),
        stops=40,
    ),
    "hide": Command(
        ("hide", SHOP, "-o", "h.dat", "--rules", "../secret.txt", "--min-support", "20") + ACCEPTED,
        ("h.dat",),
        stops=40,
    ),
    "sketch": Command(
        ("sketch", NOTES, "-o", "s.parquet", "--key-file", "../sketch.key", *ACCEPTED),
        ("s.parquet",),
        seeded=False,
    ),
    "sites encode": Command(
        ("sites", "encode", PEOPLE, "-o", "e.parquet", "-a", "../agreement")
        + ("--key-file", "../sites.key", "--vocabulary", "v"),
        ("e.parquet",),
        ("v",),
    ),
    "sites join": Command(
        ("sites", "join", "../one.parquet", "../two.parquet", "-o", "u.parquet"),
        ("u.parquet",),
        seeded=False,
    ),
    "sites agree": Command(
        ("sites", "agree", "-o", "a", "--policy", "../policy.toml", "--key-file", "../sites.key")
        + ("--range", "age=0..99", "--range", "pay=0..99"),
        files=("a",),
        seeded=False,
    ),
    "sites decode": Command(
        ("sites", "decode", "../one.parquet", "-o", "d.csv", "-a", "../agreement")
        + ("--key-file", "../sites.key", "--values", PEOPLE),
        files=("d.csv",),
        seeded=False,
    ),
    "audit": Command(
        ("audit", PEOPLE, "../release.csv", "-o", "audit.json", "--attempts", "30"),
        files=("audit.json",),
        stops=80,
    ),
    "tune": Command(
        ("tune", PEOPLE, "-o", "t.csv", "--target", "ill", "--sizes", "2", "--repeats", "1")
        + ("--strategy", "grid", "--report", "t.json", *ACCEPTED),
        ("t.csv",),
        ("t.json",),
        stops=30,
    ),
    "inspect": Command(
        ("inspect", PEOPLE, "-o", "p.toml"), files=("p.toml",), seeded=False, stops=90
    ),
    "mine": Command(
        ("mine", SHOP, "-o", "m.csv", "--min-support", "20", "--min-confidence", "0.2"),
        files=("m.csv",),
        seeded=False,
        stops=90,
    ),
    "keygen": Command(("keygen", "k"), files=("k", "k.pub"), seeded=False),
}
SETUP = (
    ("sites", "agree", "-o", "agreement", "--policy", "policy.toml", "--key-file", "sites.key")
    + ("--range", "age=0..99", "--range", "pay=0..99"),
    ("sites", "encode", "people.csv", "-o", "one.parquet", "-a", "agreement")
    + ("--key-file", "sites.key"),
    ("sites", "encode", "others.csv", "-o", "two.parquet", "-a", "agreement")
    + ("--key-file", "sites.key"),
    ("condense", "people.csv", "-o", "release.csv", "--k", "5", *ACCEPTED),
    ("sketch", "notes.txt", "-o", "setup.parquet", "--key-file", "sketch.key", *ACCEPTED),
)


def prepare(folder: Path) -> None:
    """Write what the commands read; the files that need Tulle are made by it, undisturbed."""
    rng = random.Random(0)
    for name, step in (("people.csv", 7), ("others.csv", 5)):
        lines = [
            f"{20 + i * i % 61},{i * step % 90},{rng.choice(['yes', 'no', 'no'])}\n"
            for i in range(160)
        ]
        (folder / name).write_text("age,pay,ill\n" + "".join(lines))
    baskets = [rng.sample(range(30), rng.randint(2, 6)) for _ in range(400)]
    baskets += [[1, 2, 3, *rng.sample(range(5, 30), 2)] for _ in range(60)]
    (folder / "shop.dat").write_text("".join(" ".join(map(str, b)) + "\n" for b in baskets))
    (folder / "secret.txt").write_text("1, 2 -> 3\n")
    words = ["cat", "dog", "sat", "mat", "house", "tree", "river", "stone", "cloud", "bird"]
    notes = (" ".join(rng.choices(words, k=12)) for _ in range(200))
    (folder / "notes.txt").write_text("\n".join(notes) + "\n")
    known = 'kind = "{}"\nrole = "quasi-identifier"\n'
    (folder / "policy.toml").write_text(
        "".join(
            f"[columns.{name}]\n{known.format(kind)}"
            for name, kind in (("age", "integer"), ("pay", "integer"), ("ill", "category"))
        )
    )
    from tulle.keys import SecretKey

    SecretKey.generate().save(folder / "sites.key")
    for arguments in SETUP:
        child = start(arguments, folder, folder / "errors")
        assert ended(child) == 0, (arguments, (folder / "errors").read_text())


def load(modules: Path) -> None:
    """Import what a child needed, without using it: the next ones find it there."""
    for name in modules.read_text().split():
        with suppress(Exception):
            import_module(name)


def start(
    arguments: tuple[str, ...], folder: Path, errors: Path, modules: Path | None = None
) -> int:
    """Run one command in a child, which may write what it imported; return its process id."""
    child = os.fork()
    if child:
        return child
    try:
        os.chdir(folder)
        sys.argv = ["tulle", *arguments]
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        from tulle.cli import main as command_line

        command_line()
    except SystemExit as stop:
        if modules is not None:
            modules.write_text("\n".join(sorted(sys.modules)))
        os._exit(int(stop.code or 0))
    except KeyboardInterrupt:  # before the command line began, or after it ended
        os._exit(130)
    os._exit(0)


def ended(child: int) -> int:
    """Wait for a child; return its exit code, or minus the signal that ended it."""
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("a run did not end")


class Row:
    """What happened to one command."""

    def __init__(self, name: str) -> None:
        self.told = {"command": name, "killed": 0, "interrupted": 0, "ended_before": 0}
        self.problems: list[str] = []

    def to_json(self) -> dict[str, Any]:
        return {**self.told, "problems": self.problems}


def stopped(name: str, folder: Path, stops: int, chance: random.Random) -> Row:
    """Stop a command so many times, and look at its files after each."""
    command, row = COMMANDS[name], Row(name)
    folder.mkdir()
    errors = folder.with_suffix(".errors")
    seconds, known = reference(command, folder, errors)
    for turn in range(3 * stops):
        interrupt = chance.random() < 0.5
        child = start(command_line(command, turn % 2), folder, errors)
        late = chance.random() < 0.5  # most is written near the end
        time.sleep(seconds * chance.uniform(0.5 if late else 0, 1))
        os.kill(child, signal.SIGINT if interrupt else signal.SIGKILL)
        code = ended(child)
        seconds *= 0.9 if code == 0 else 1.03  # other processes make it longer or shorter
        expect(row, code, interrupt, errors.read_text())
        look(row, command, folder, known)
        if row.told["killed"] + row.told["interrupted"] == stops:
            break
    if ended(start(command_line(command, 0), folder, errors)):
        row.problems.append("the command does not run any more")
    look(row, command, folder, known, strict=True)
    return row


def command_line(command: Command, seed: int) -> tuple[str, ...]:
    return (*command.arguments, "--force", *(("--seed", str(seed)) if command.seeded else ()))


def reference(command: Command, folder: Path, errors: Path) -> tuple[float, dict[str, set[str]]]:
    """Run undisturbed with both seeds; return the time and the digests of the releases."""
    known: dict[str, set[str]] = {name: set() for name in command.releases}
    seconds = 0.0
    for seed in (0, 1):
        begin = time.monotonic()
        modules = folder.with_suffix(".modules") if seed == 0 else None
        child = start(command_line(command, seed), folder, errors, modules)
        assert ended(child) == 0, (command.arguments, errors.read_text())
        seconds = time.monotonic() - begin
        if modules is not None:
            load(modules)
        for name in command.releases:
            known[name].add(digest(folder / name))
    return seconds, known


def expect(row: Row, code: int, interrupt: bool, errors: str) -> None:
    """Count how a run ended; an interrupted one says so in one line."""
    if code == -signal.SIGKILL:
        row.told["killed"] += 1
    elif code == 130 and interrupt:
        row.told["interrupted"] += 1
        if "Traceback" in errors:
            row.problems.append("an interrupt ended in a traceback")
    elif code == 0:
        row.told["ended_before"] += 1
    else:
        row.problems.append(f"exit code {code}: {errors[-300:]}")


def look(
    row: Row, command: Command, folder: Path, known: dict[str, set[str]], *, strict: bool = False
) -> None:
    """Check that every release is one of those known, and every file whole."""
    for name in command.releases:
        path = folder / name
        settle(path)
        if not path.exists():
            row.problems.append(f"{name} is gone")
            continue
        found = digest(path)
        if found not in known[name]:
            row.problems.append(f"{name} is neither the old release nor the new one")
        manifest = read_manifest(path)
        if manifest.output["sha256"] != found or not manifest.holds:
            row.problems.append(f"{name} does not match its manifest")
    for name in command.files:
        if not whole(folder / name):
            row.problems.append(f"{name} is not whole")
    written = {*command.releases, *command.files}
    written |= {manifest_path(name).name for name in command.releases}
    more = {path.name for path in folder.iterdir()} - written
    if strict:
        row.problems += [f"{name} is left over" for name in sorted(more)]
    else:
        row.problems += [f"{name} appeared" for name in sorted(more) if not is_hidden(name)]


def is_hidden(name: str) -> bool:
    """Return whether a file is a whole one that had no time to take its name."""
    return name.startswith(".") and name.endswith(".part")


def whole(path: Path) -> bool:
    """Return whether a file is there, and complete as far as its kind tells."""
    if not path.exists():
        return False
    content = path.read_bytes()
    if path.suffix == ".json":
        return isinstance(json.loads(content), dict)
    if content.startswith(b'{"format"'):  # sealed: the first line says how long the rest is
        line, _, sealed = content.partition(b"\n")
        return bool(json.loads(line)["length"] == len(sealed))
    return content.endswith(b"\n")


def main() -> None:
    folder, share, seed, *names = sys.argv[1:]
    place = Path(folder)
    prepare(place)
    chance = random.Random(int(seed))
    chosen = names or list(COMMANDS)
    rows = []
    for name in chosen:
        stops = max(1, round(float(share) * COMMANDS[name].stops))
        row = stopped(name, place / name.replace(" ", "_"), stops, chance)
        print(json.dumps(row.to_json()), file=sys.stderr, flush=True)
        rows.append(row.to_json())
    print(json.dumps(rows))


def run_and_stop(folder: Path, share: float, *names: str, seed: int = 0) -> list[dict[str, Any]]:
    """Stop commands in a process of their own; return a row for each."""
    command = [sys.executable, __file__, str(folder), str(share), str(seed)]
    done = subprocess.run(
        [*command, *names], stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT
    )
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    main()
