"""Three hospitals, one miner whom nobody has to trust.

The hospitals agree on a secret, each encodes its own table, the miner joins the codes and mines
them with its usual tools, and the hospitals read what it found. Run: python examples/three_sites.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.tree import DecisionTreeClassifier

from tulle import SecretKey, SiteAgreement, SiteCodec, SiteSummary, write_table


def hospital(seed: int, patients: int) -> pl.DataFrame:
    """Patients whose illness goes with their age and their stay."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 95, patients)
    stay = np.round(rng.gamma(2.0, 1.5, patients) + (age > 60) * 2, 1)
    ill = np.where(age > 60, "Pneumonia", np.where(stay > 3, "Gastritis", "Influenza"))
    odd = rng.random(patients) < 0.1
    return pl.DataFrame({"age": age, "stay": stay, "illness": np.where(odd, "Appendicitis", ill)})


def main() -> None:
    tables = [hospital(1, 400), hospital(2, 250), hospital(3, 600)]
    folder = Path(tempfile.mkdtemp())

    # 1. Each hospital tells its columns and rounded ranges; one of them makes the agreement.
    summaries = [SiteSummary.of(table) for table in tables]
    agreement = SiteAgreement.from_summaries(summaries)
    key = SecretKey.generate()  # or a passphrase
    agreement.save(folder / "hospitals.agreement", key)
    print("Compare by phone:", agreement.fingerprint)

    # 2. Each hospital encodes its table with its copy of the agreement.
    sites = [SiteCodec(SiteAgreement.load(folder / "hospitals.agreement", key)) for _ in tables]
    encoded = [site.transform(table) for site, table in zip(sites, tables)]
    print("What leaves:\n", encoded[0].head(3))

    # 3. The miner grows a tree on the union. It understands neither names nor scales.
    union = pl.concat(encoded)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    tree.fit(union.select("age", "stay").to_numpy(), union["illness"])

    # 4. A hospital reads the tree, and checks it against the union that nobody was to see.
    print("What the first hospital reads:")
    print(sites[0].decode_tree(tree, feature_names=["age", "stay"]))
    everyone = pl.concat(tables)
    plain = DecisionTreeClassifier(max_depth=2, random_state=0)
    plain.fit(everyone.select("age", "stay").to_numpy(), everyone["illness"])
    accuracies = [
        model.score(table.select("age", "stay").to_numpy(), table["illness"])
        for model, table in ((tree, union), (plain, everyone))
    ]
    print(f"accuracy on codes {accuracies[0]:.4f}, on plain data {accuracies[1]:.4f}")

    # 5. What the codes do not hide: the report of the command attacks them.
    write_table(tables[0], folder / "first.parquet")
    key.save(folder / "hospitals.key")
    command = ["sites", "encode", "first.parquet", "-o", "coded.parquet", "--seed", "0"]
    command += ["--agreement", "hospitals.agreement", "--key-file", "hospitals.key"]
    command = [sys.executable, "-m", "tulle", *command, "--report", "coded.json"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    print("What a miner who knows these people could do:")
    for name, attack in json.loads((folder / "coded.json").read_text())["attacks"].items():
        print(f"- {name}: right in {attack['rate']:.0%} (guessing {attack['baseline']:.0%})")


if __name__ == "__main__":
    main()
