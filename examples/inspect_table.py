"""Look at a table, correct the policy by hand as a person would, and read it back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from tulle import (
    Policy,
    Role,
    infer_columns,
    load_policy,
    read_batches,
    read_table,
    singling_out,
    write_policy,
    write_table,
)


def people(n: int = 3_000) -> pl.DataFrame:
    """A made-up table with what real tables have: names, post codes, codes, gaps."""
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "patient_id": rng.permutation(n) + 10_000,
            "email": [f"person{i}@mail.example" for i in range(n)],
            "zip": [f"0{z}" for z in rng.integers(1000, 1200, n)],
            "age": rng.integers(18, 95, n),
            "sex": rng.choice(["f", "m"], n),
            "diagnosis": rng.choice(["flu", "asthma", "gout", None], n),
            "x17": rng.normal(5, 1, n).round(1),  # nobody can tell from the name: a blood value
            "class": rng.choice(["readmitted", "not readmitted"], n, p=[0.2, 0.8]),
        }
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table, policy = Path(folder) / "people.csv.gz", Path(folder) / "policy.toml"
        write_table(people(), table)
        frame = read_table(table)
        print(f"post codes are {frame['zip'].dtype}: the leading zero is kept")
        print("batches:", [batch.height for batch in read_batches(table, rows=1_000)])

        columns = infer_columns(frame)
        write_policy(Policy(tuple(columns)), policy)
        for column in columns:
            print(f"  {column.name:<11} {column.kind:<9} {column.role:<17} {column.reason}")
        known = [column.name for column in columns if column.role == Role.QUASI]
        for some in singling_out(frame, known).combinations[-3:]:
            print(f"  {', '.join(some.columns)}: {some.share:.1%} of the records are unique")

        text = policy.read_text()
        before, section, after = text.partition("[columns.x17]")
        after = after.replace('role = "quasi-identifier"', 'role = "sensitive"', 1)
        policy.write_text(before + section + after)
        corrected = load_policy(policy, frame.columns)
        print("sensitive:", corrected.named(Role.SENSITIVE))


if __name__ == "__main__":
    main()
