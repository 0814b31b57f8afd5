"""Draw records that meet a condition with SDV; runs in its environment, imports nothing of Tulle.

    python conditions_peer.py MEMBERS RESULT N CONDITION...

A condition is a query of pandas. What SDV can be asked for, it is asked for: values that columns
must have (``sample_from_conditions``). Any other condition is met as SDV's users meet it, by
drawing and throwing away (``sample`` and a query). RESULT is a JSON list: for each condition the
way, CPU seconds, how many records of N, the share that meets it, and means of some columns.
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings

import pandas as pd

MOST = 60  # CPU seconds for a condition
EQUALS = re.compile(r"`?([^`]+?)`? == '([^']*)'")


def main() -> None:
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    warnings.filterwarnings("ignore")
    members, result, wanted, *conditions = sys.argv[1:]
    table = pd.read_csv(members)
    columns = {
        name: {"sdtype": "numerical" if pd.api.types.is_numeric_dtype(kind) else "categorical"}
        for name, kind in table.dtypes.items()
    }
    metadata = Metadata.load_from_dict({"tables": {"table": {"columns": columns}}})
    model, start = GaussianCopulaSynthesizer(metadata), time.process_time()
    model.fit({"table": table})
    found = [{"way": "fit", "seconds": time.process_time() - start}]
    for condition in conditions:
        found.append(drawn(model, condition, int(wanted)))
        with open(result, "w") as out:
            json.dump(found, out)


def drawn(model, condition: str, wanted: int) -> dict:
    parts = [EQUALS.fullmatch(part.strip()) for part in condition.split(" and ")]
    start, problem = time.process_time(), ""
    if all(parts):
        from sdv.sampling import Condition

        way, values = "asked for", dict(part.groups() for part in parts)
        try:
            made = model.sample_from_conditions([Condition(values, num_rows=wanted)])
            made = made["table"] if isinstance(made, dict) else made
        except Exception as error:
            made, problem = pd.DataFrame(), f"{type(error).__name__}: {error}"[:200]
    else:
        way, some = "drawn and thrown away", []
        while sum(map(len, some)) < wanted and time.process_time() - start < MOST:
            one = model.sample(1_000)
            some.append((one["table"] if isinstance(one, dict) else one).query(condition))
        made = pd.concat(some).head(wanted)
    seconds = time.process_time() - start
    holds = len(made.query(condition)) / len(made) if len(made) else 0.0
    means = {
        "hours-per-week": float(made["hours-per-week"].mean()) if len(made) else None,
        "women": float((made["sex"] == "Female").mean()) if len(made) else None,
    }
    return {"condition": condition, "way": way, "seconds": seconds, "records": len(made),
            "holds": holds, "problem": problem, **means}  # fmt: skip


if __name__ == "__main__":
    main()
