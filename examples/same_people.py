"""A clinic and an insurer hold other columns of the same people; a trustee joins them.

The sites agree on a secret and each encodes its own columns, with a pseudonym for each person. The
trustee, who does not have the secret, joins the codes and grows a tree on them, and the sites read
what it found. Run: python examples/same_people.py
"""

from __future__ import annotations

import numpy as np
import polars as pl
from sklearn.tree import DecisionTreeClassifier

from tulle import SiteAgreement, SiteCodec, SiteSummary, match_people


def two_sites(people: int = 500) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Costs that go with age and illness; some people are at one site only."""
    rng = np.random.default_rng(0)
    numbers = np.array([f"P{i:06}" for i in rng.permutation(people)])
    age = rng.integers(18, 95, people)
    ill = np.where(rng.random(people) < age / 150, "Diabetes", "Influenza")
    cost = np.round(rng.gamma(2, 50, people) + 5 * age + (ill == "Diabetes") * 900, 2)
    clinic = pl.DataFrame({"insured": numbers, "age": age, "illness": ill})
    insurer = pl.DataFrame({"insured": numbers, "cost": cost})
    return clinic[:450], insurer[rng.permutation(people)][:480]


def main() -> None:
    clinic, insurer = two_sites()

    # 1. Each site says which columns it has; the one by which people are matched is at both.
    summaries = [SiteSummary.of(clinic), SiteSummary.of(insurer)]
    agreement = SiteAgreement.from_summaries(summaries, match="insured")
    print("Compare by phone:", agreement.fingerprint)

    # 2. Each site encodes its own columns.
    at_the_clinic, at_the_insurer = SiteCodec(agreement), SiteCodec(agreement)
    encoded = [at_the_clinic.transform(clinic), at_the_insurer.transform(insurer)]
    print("What leaves the clinic:\n", encoded[0].head(3))

    # 3. The trustee joins the codes by pseudonym and grows a tree. It can read neither.
    found = match_people(encoded, "insured")
    print(f"{found.table.height} people matched; left out: {found.left_out}")
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    tree.fit(found.table.select("age", "cost").to_numpy(), found.table["illness"])

    # 4. The clinic reads the tree: its thresholds, and the illnesses, which are its own values.
    print("What the clinic reads:")
    print(at_the_clinic.decode_tree(tree, feature_names=["age", "cost"]))


if __name__ == "__main__":
    main()
