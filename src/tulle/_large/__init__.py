"""Condensation of tables larger than memory: facts, cells of space, and one release of many parts.

The plan is pure functions on arrays and frames, the same wherever it runs: facts of the table from
batches (:mod:`~tulle._large.facts`), what follows from them for every record
(:mod:`~tulle._large.layout`), cuts of space into cells (:mod:`~tulle.condense._cuts`), and the work
of one cell (:mod:`~tulle._large.cell`). :mod:`~tulle._large.machine` runs it on one machine.
"""
