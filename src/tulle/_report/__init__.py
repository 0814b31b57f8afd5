"""Reports: one plain dictionary in; HTML, JSON or Markdown out.

The report imports no family. Whoever makes a release hands over a *result*, a dictionary of words
and numbers (no arrays, no frames, no rows of the data)::

    {
      "title": "Condensed release of adult.csv",
      "summary": "32,561 records became 32,561 look-alikes.",   # optional
      "guarantee": {"text": "Every group holds at least 20 records.",
                    "rows": [{"name": "smallest group", "asked": 20, "found": 21, "holds": True}]},
      "k": 20,                       # the least number of records behind a public aggregate
      "records": 32561,              # optional: how many there are; fewer than k: no public edition
      "metrics": {"covariance_compatibility": 0.998, ...},       # name -> number
      "behind": {"accuracy_ratio": 9768},   # optional: records behind a metric, if not all
      "attacks": {"linkage": AttackResult.to_dict(), ...},
      "sections": [section, ...],    # what a family adds, in this order
      "limits": ["What the method does not protect, a sentence each."],
      "gates": [{"name": "max_linkage", "limit": 0.05, "value": 0.01, "holds": True,
                 "people": 1000}],   # optional: the fewest people that the value is about
      "command": "tulle condense adult.csv -o release.csv -k 20",
      "provenance": {"seed": "given", "versions": {...}},         # name -> word, number or dict
      "verdict": {"level": "good" | "caution" | "bad", "text": "..."},  # made if left out
    }

    section = {"id": "rules", "title": "Rules before and after", "text": "...", "blocks": [...]}
    block   = {"type": "facts", "rows": [{"name": ..., "value": ..., "help": ...,
                                          "style": "plain" | "share" | "percent"}]}
            | {"type": "list", "rows": ["a sentence", ...]}
            | {"type": "table", "title": ..., "columns": [names], "rows": [[cells]],
               "counts": [names of columns that count records],
               "behind": [how many records each row rests on, if it tells distances]}
            | {"type": "chart", "chart": KIND, "title": ..., "help": ..., "rows": [{...}]}

A section, block or attack with ``"owner_only": True`` is left out of the public edition, which also
hides counts of fewer than ``k`` records, figures about fewer than ``k`` people, and rounds rates.
Kinds of charts, with the fields of their rows (more in :mod:`tulle._charts`); ``count`` and
``released`` say how many original and released records a cell rests on, and are optional where
they stand in brackets:

==================  ================================================================
``histogram``       ``label``, ``original``, ``release`` (shares), ``count``, [``released``]
``density``         ``x``, ``y``, ``of`` ("original" or "release"), ``share``, ``count``
``correlation``     ``first``, ``second``, ``original``, ``release``, [``count``]
``groups``          ``size``, ``level``, ``groups`` (how many), ``count`` (records in them)
``curve``           ``size``, ``accuracy``, ``privacy``, ``chosen``
``class_curve``     ``class``, ``size``, ``accuracy``
``before_after``    ``name``, ``measure``, ``before``, ``after``, ``limit`` (or None)
``error``           ``name``, ``predicted``, ``measured``
==================  ================================================================
"""

from __future__ import annotations

from tulle._report.render import markdown, render, save, to_json

__all__ = ["markdown", "render", "save", "to_json"]
