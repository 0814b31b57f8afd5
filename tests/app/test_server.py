"""What other users of the machine can see of the app: no link and no seed in a command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tulle._app.study import _script
from tulle._app.worker import _without_seed

pytestmark = pytest.mark.slow

# A browser that runs in the foreground and says what it was started with.
BROWSER = """#!{python}
import json, os, pathlib, re, stat, sys, urllib.parse, urllib.request
page = pathlib.Path(urllib.parse.urlsplit(sys.argv[1]).path)
modes = [stat.S_IMODE(path.stat().st_mode) for path in (page, page.parent)]
link = re.search('href="([^"]+)"', page.read_text())[1]
answer = urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(link)
told = dict(words=sys.argv[1:], modes=modes, status=answer.status, page=str(page))
target = pathlib.Path({target!r})
target.with_suffix(".part").write_text(json.dumps(told))
target.with_suffix(".part").rename(target)
"""


def test_a_browser_in_the_foreground_gets_the_link_by_a_private_file(tmp_path: Path) -> None:
    folder, script, told = tmp_path / "work", tmp_path / "browser", tmp_path / "told.json"
    folder.mkdir()
    script.write_text(BROWSER.format(python=sys.executable, target=str(told)))
    script.chmod(0o755)
    app = subprocess.Popen(
        [sys.executable, "-m", "tulle", "app", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": str(script)},
    )
    try:
        assert app.stdout is not None
        link = app.stdout.readline().strip()
        wait_until(told.exists)
        seen = json.loads(told.read_text())
        wait_until(lambda: not Path(seen["page"]).parent.exists())
    finally:
        app.send_signal(signal.SIGINT)
        app.communicate()
    token = link.partition("token=")[2]
    assert token
    assert token not in " ".join(seen["words"])
    assert seen["modes"] == [0o600, 0o700]
    assert seen["status"] == 200
    assert app.returncode == 0


def wait_until(happened: Callable[[], bool]) -> None:
    for _ in range(3_000):  # on a busy machine
        if happened():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


def test_a_seed_is_in_the_environment_and_in_no_command_line() -> None:
    words = ["condense", "t.csv", "--seed", "7", "--json"]
    assert _without_seed(words) == (["condense", "t.csv", "--json"], {"TULLE_SEED": "7"})
    assert _without_seed(["verify", "r.csv"]) == (["verify", "r.csv"], {})
    script = _script(words, "r.csv", "again.csv")
    assert "\nTULLE_SEED=7 tulle condense t.csv --json --force\n" in script
    assert "--seed" not in script
