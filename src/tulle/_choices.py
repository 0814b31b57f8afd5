"""The words that options can take, one list each.

The library checks against them and the command line offers them, so this module imports nothing:
``tulle condense --help`` must answer at once.
"""

from __future__ import annotations

# condensation
GROUPINGS = ("fast", "best", "levels", "modified", "original", "mdav")
DISTRIBUTIONS = ("uniform", "normal", "mean")  # of records about the mean of their group
SYNTHESES = ("shape", *DISTRIBUTIONS)
ON_INFEASIBLE = ("error", "suppress")
SMALL_CLASSES = ("error", "suppress", "pool")
ENGINES = ("machine", "spark")
GROUP_RULES = ("nearest", "bayes", "normal")  # of classification by groups
TASKS = ("predict", "clusters")  # that releases are explored for
STRATEGIES = ("rule", "grid", "both", "gcd")  # of the search for a group size
TUNED_FOR = ("nearest", "svm", "tree", "linear")  # miners that a group size is searched for
BASELINES = ("generalize", "randomize", "rotate")  # older techniques that make releases

# streams
SPLITS = ("paper", "strict")
SNAPSHOTS = ("bounded", "all")
SNAPSHOT_FORMATS = ("parquet", "csv")
ON_NEW = ("wait", "reject", "other")  # categories that come later
STREAM_FORMATS = ("csv", "ndjson")
RESTARTS = ("replayed", "continued")

# rules
HIDING_METHODS = (
    "best", "swa", "iga", "minfia", "maxfia", "naive", "rra", "ra",
    "algo1a", "algo1b", "algo2a", "algo2b", "blocking",
)  # fmt: skip
VICTIMS = ("transaction", "window")
LOOKAHEADS = ("always", "printed")
INTERVALS = ("lower", "middle")  # where blocking compares an interval with a threshold
SUPPORTS_OF = ("rule", "antecedent")
SHARED = ("baskets", "rules")  # what leaves when rules are hidden
ITEMSETS = ("all", "closed", "maximal")
MINERS = ("apriori", "tertius", "predictive-apriori")  # by confidence, confirmation, accuracy

# sketches
MODELS = ("delta", "k-variance")
CRITERIA = ("definition", "gap")
GRAPHS = ("exact", "partition")

# sites
CUTS = ("equal", "uneven")
RESULTS = ("table", "centers", "rules", "json", "text")  # that a miner sends back

# audits
GATES = (
    "max_linkage", "max_copies", "max_inference", "max_membership", "max_singling_out",
    "max_reconstruction", "max_homogeneity", "max_earlier", "max_worst_case", "min_accuracy_ratio",
)  # fmt: skip
REPORTS = (".html", ".htm", ".json", ".md")
EDITIONS = ("owner", "public")
