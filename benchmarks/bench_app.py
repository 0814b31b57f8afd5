"""The local app in a browser without network: how fast its pages open, and their pictures.

It walks from the demo table to a release, through three linked tables, and through the pages of the
other families.
Pictures go to ``docs/pictures``, and each also at 360 and 1600 pixels, light and dark, to a folder
that is named at the end; they are to be looked at.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.results import write_table

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
BROWSER = Path(__file__).parents[1] / "tests" / "report" / "browser.py"
HIGHEST = 1700
TIMES = 5  # visits of each page
WAIT = 600_000  # milliseconds
_TIMING = "performance.getEntriesByType('navigation')[0].toJSON()"


class Walk:
    """``tulle app`` on a folder, a browser that opened its link, and what was measured."""

    def __init__(self, server: subprocess.Popen[bytes], page: Any, looked_at: Path) -> None:
        self.server, self.page, self.looked_at = server, page, looked_at
        self.rows: list[list[Any]] = []

    def shown(self, name: str, title: str) -> None:
        """Measure the page that is open, and take its picture in all forms."""
        self.measure(title)
        self.page.wait_for_timeout(1500)
        for width in (360, 1280, 1600):
            for scheme in ("light", "dark"):
                self.page.set_viewport_size({"width": width, "height": 900})
                self.page.emulate_media(color_scheme=scheme)
                self._draw_all()
                kept = (width, scheme) == (1280, "light")
                place = PICTURES / f"app-{name}.png" if kept else self._place(name, width, scheme)
                self._picture(place)

    def measure(self, title: str) -> None:
        """Open the same page some times: CPU seconds of the server, seconds until it is there."""
        cpu, ready, loaded = [], [], []
        for _ in range(TIMES):
            before = cpu_seconds(self.server.pid)
            self.page.goto(self.page.url)
            cpu.append(cpu_seconds(self.server.pid) - before)
            told = self.page.evaluate(_TIMING)
            ready.append(told["responseEnd"] / 1000)
            loaded.append(told["domContentLoadedEventEnd"] / 1000)
        size = told["decodedBodySize"] / 1000
        figures = [f"{value:.3f}" for value in (median(cpu), median(ready), median(loaded))]
        self.rows.append([title, *figures, f"{size:.0f}"])

    def _draw_all(self) -> None:
        """Scroll through the page: charts are drawn when they are seen."""
        for chart in self.page.locator(".chart:visible").all()[:6]:
            chart.scroll_into_view_if_needed()
            chart.locator("svg").first.wait_for()  # on a busy machine it takes seconds
        self.page.evaluate("window.scrollTo(0, 0)")

    def _picture(self, path: Path) -> None:
        height = min(HIGHEST, self.page.evaluate("document.documentElement.scrollHeight"))
        width = self.page.viewport_size["width"]
        clip = {"x": 0, "y": 0, "width": width, "height": height}
        self.page.screenshot(path=path, clip=clip, full_page=True)

    def _place(self, name: str, width: int, scheme: str) -> Path:
        return self.looked_at / f"{name}-{width}-{scheme}.png"


def cpu_seconds(pid: int) -> float:
    """The CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(folder: Path, looked_at: Path) -> Iterator[Walk]:
    chromium = runpy.run_path(str(BROWSER))["chromium"]  # other packages are called tests, too
    words = [sys.executable, "-m", "tulle", "app", str(folder), "--port", "0", "--no-browser"]
    with chromium() as browser, subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            link = server.stdout.readline().decode().strip()
            page = browser.new_page()
            page.set_default_timeout(WAIT)
            page.goto(link)
            walk = Walk(server, page, looked_at)
            told = page.evaluate(_TIMING)
            cpu, ready = cpu_seconds(server.pid), told["responseEnd"] / 1000
            first = told["domContentLoadedEventEnd"] / 1000
            walk.rows.append(["the first page, with the start of the server", f"{cpu:.3f}",
                              f"{ready:.3f}", f"{first:.3f}", ""])  # fmt: skip
            yield walk
        finally:
            server.terminate()


def people(walk: Walk, quick: bool) -> None:
    """From the demo table to two releases."""
    page = walk.page
    page.click("nav >> text=Tables")
    walk.shown("start", "start")
    page.click("#demo")
    page.wait_for_selector("#first")
    walk.shown("data", "data")
    page.click("#next")
    page.wait_for_selector("#cancel")
    page.wait_for_timeout(5000)
    walk.shown("running", "a release is being made")
    page.wait_for_selector("#files")
    walk.shown("made", "one release")
    page.click(".shapes a >> nth=0")
    page.select_option("#y", index=2)
    page.click("button:has-text('Show')")
    page.wait_for_selector("[data-drawn] svg")
    walk.shown("look", "two columns, in table and release")
    page.click("nav.steps >> text=Columns")
    walk.shown("roles", "columns")
    page.click("nav.steps >> text=Recipient")
    page.fill("#recipient", "the cancer registry")
    page.fill("#until", "2027-12-31")
    page.select_option("#target", label="diagnosis")
    page.click("button[data-gates='']")  # limits of a tenth say nothing of 569 people
    page.click("#next")
    page.wait_for_url("**/release")
    page.click("nav.steps >> text=Recipient")
    walk.shown("context", "recipient")
    page.click("nav.steps >> text=Release")
    walk.shown("release", "release")
    page.click("nav.steps >> text=Compare")
    page.fill("#k", "20" if quick else "10, 20, 50")
    page.uncheck("#uniform")
    page.click("#measure")
    page.wait_for_selector("[data-drawn] svg")
    page.wait_for_selector("#measure", state="attached")
    walk.shown("explore", "compare sizes, the frontier")
    page.get_by_role("link", name="Everything about").last.click()
    walk.shown("point", "one point")
    page.click("text=Compare it with another")
    walk.shown("compare", "compare two points")
    page.click("nav >> text=History")
    walk.shown("history", "history")


def linked(walk: Walk) -> None:
    """Three tables of the same people, read and released together."""
    page = walk.page
    page.click("#linked")
    page.click("#run")
    page.wait_for_selector("#next")
    walk.shown("linked", "linked tables, read")
    page.click("#next")
    page.click("#run")
    page.wait_for_selector("text=Again, with other answers")
    walk.shown("together", "linked tables, released")


def write_clinic(folder: Path) -> None:
    """Patients, their visits, and what was measured at them, drawn at random."""
    drawn = random.Random(1)
    patients, visits, labs = ["patient,born,sex,town"], ["visit,patient,admitted,ward,days"], []
    for patient in drawn.sample(range(10_000, 99_999), 600):
        born, sex = drawn.randint(1935, 2005), drawn.choice("fm")
        patients.append(f"{patient},{born},{sex},{drawn.choice(['Bern', 'Chur', 'Visp'])}")
        month = drawn.randint(1, 12)
        for _ in range(drawn.randint(1, 4)):
            visit, ward = 500_000 + len(visits), drawn.choice(["surgery", "medicine", "children"])
            admitted = f"{2022 + month // 12}-{month % 12 + 1:02}-{drawn.randint(1, 28):02}"
            visits.append(f"{visit},{patient},{admitted},{ward},{drawn.randint(1, 12)}")
            month += drawn.randint(1, 4)
            high = 1 + (2005 - born) / 60
            labs += [f"{visit},CRP,{drawn.lognormvariate(high, 0.5):.1f}"] * drawn.randint(0, 1)
            labs += [f"{visit},Hb,{drawn.gauss(14, 1):.1f}"]
    tables = {"patients": patients, "visits": visits, "labs": ["visit,test,value", *labs]}
    for name, rows in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")


def others(walk: Walk) -> None:
    """Baskets, texts, sites and a stream."""
    page = walk.page
    page.click("nav >> text=Tables")
    page.click("text=shop.dat")
    page.fill("#min_support", "5%")
    page.click("#run")
    page.wait_for_selector("text=Again, with other answers")
    walk.shown("mine", "baskets, mined")
    page.click("nav.steps >> text=Hide")
    page.check("input[type=checkbox] >> nth=0")
    page.click("#run")
    page.wait_for_selector("text=Again, with other answers")
    walk.shown("hide", "baskets, a rule hidden")
    page.click("nav >> text=Tables")
    page.click("text=notes.txt")
    walk.shown("sketch", "texts")
    page.click("nav >> text=Tables")
    page.click("#sites")
    page.click("#run")
    page.wait_for_selector("text=Again, with other answers")
    page.click("nav.steps >> text=Agree")
    page.check("input[type=checkbox] >> nth=0")
    page.click("#run")
    page.wait_for_selector("text=Again, with other answers")
    walk.shown("sites", "sites, agreed")
    page.click("nav >> text=Tables")
    page.click("text=visits.state")
    walk.shown("stream", "a stream")


def write_others(folder: Path) -> None:
    """Files of the other families, drawn at random."""
    drawn = random.Random(0)
    goods = ["bread", "milk", "beer", "tea", "eggs", "crisps", "apples"]
    baskets = [" ".join(drawn.sample(goods, drawn.randint(2, 4))) for _ in range(300)]
    baskets += ["bread milk beer"] * 80
    (folder / "shop.dat").write_text("\n".join(baskets) + "\n")
    words = ["pulse", "pressure", "chest", "pain", "knee", "fracture", "cast", "fever", "cough"]
    notes = [" ".join(drawn.choices(words, k=10)) for _ in range(200)]
    (folder / "notes.txt").write_text("\n".join(notes) + "\n")
    ill = [f"{drawn.randint(18, 90)},{drawn.choice(['Flu', 'Mumps'])}" for _ in range(200)]
    (folder / "berlin.csv").write_text("age,illness\n" + "\n".join(ill) + "\n")
    ages = [drawn.gauss(40 + place / 300, 12) for place in range(6_000)]
    visits = [{"age": round(age), "cost": round(drawn.lognormvariate(6, 1), 2)} for age in ages]
    (folder / "visits.ndjson").write_text("".join(f"{json.dumps(row)}\n" for row in visits))
    words = [sys.executable, "-m", "tulle", "stream", "visits.ndjson", "-o", "snapshots"]
    words += ["--state", "visits.state", "--every", "2000", "--plain-waiting"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)


def main(quick: bool = False) -> None:
    looked_at = Path(tempfile.mkdtemp(prefix="tulle-app-pictures-"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "hospital"
        folder.mkdir()
        write_others(folder)
        with served(folder, looked_at) as walk:
            people(walk, quick)
            others(walk)
        clinic = Path(name) / "clinic"
        clinic.mkdir()
        write_clinic(clinic)
        with served(clinic, looked_at) as second:
            linked(second)
    print(f"Pictures to look at: {looked_at}")
    write_table(
        "app",
        "Pages of the local app on the demo table",
        ["page", "CPU s of the server", "s until it arrived", "s until it is there", "kB"],
        [*walk.rows, *second.rows[1:]],
        notes=f"Medians of {TIMES} visits in a headless Chromium on the same machine; what the "
        f"machine did besides: load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores. The goals: "
        "the first page in 0.5 s, every other in 0.2 s.",
        packages=("starlette", "uvicorn", "playwright"),
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
