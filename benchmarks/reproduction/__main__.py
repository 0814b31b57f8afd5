"""Runs what has not been measured yet, then writes the page and its figures.

``TULLE_DATA=folder python -m benchmarks.reproduction [--quick] [NAME ...]``. Each experiment leaves
``measured/NAME.json``; one that is there is not run again unless it is named.
``--quick`` runs every experiment at a small size, prints its findings and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.reproduction import classes, coding, hiding, levels, sketching
from benchmarks.reproduction.page import MEASURED, write_page

EXPERIMENTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "levels_worked": levels.worked,
    "levels_figures": levels.figures,
    "classes_worked": classes.worked,
    "classes_table1": classes.table1,
    "classes_gcd": classes.gcd,
    "classes_table2": classes.table2,
    "classes_adult": classes.adult,
    "rules_table1": hiding.table1,
    "rules_table2": hiding.table2,
    "rules_windows": hiding.windows,
    "rules_times": hiding.times,
    "rules_blocked": hiding.blocked,
    "sketches_equations": sketching.equations,
    "sketches_figures": sketching.figures,
    "sketches_dimensions": sketching.dimensions,
    "sketches_times": sketching.times,
    "sites_table3": coding.table3,
    "sites_boxes": coding.boxes,
    "sites_breaches": coding.breaches,
    "sites_adult": coding.adult,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.reproduction")
    parser.add_argument("--quick", action="store_true", help="small sizes, write nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="run these, measured or not")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for name, experiment in EXPERIMENTS.items():
        path = MEASURED / f"{name}.json"
        wanted = name in options.names if options.names else options.quick or not path.exists()
        if options.page or not wanted:
            continue
        begin = time.process_time()
        found = experiment(options.quick)
        seconds = round(time.process_time() - begin, 1)
        print(f"{name}: {seconds} CPU seconds", flush=True)
        if options.quick:
            print(json.dumps(found, indent=1, default=float)[:2_000])
            continue
        MEASURED.mkdir(exist_ok=True)
        text = json.dumps(
            {"seconds": seconds, **found}, indent=1, default=float, ensure_ascii=False
        )
        path.write_text(text + "\n", encoding="utf-8")
    if not options.quick:
        write_page()


if __name__ == "__main__":
    main()
