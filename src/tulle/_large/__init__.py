"""Condensation of tables larger than memory: facts, blocks of people, a release of many parts.

A table is divided by lot into blocks of whole people, each of which is condensed as a table in
memory is. What a block alone cannot know (:mod:`~tulle._large.facts`) is learnt from the whole
table first; :mod:`~tulle._large.plan` decides what follows from it, wherever the work is done, and
:mod:`~tulle._large.machine` does it on one machine.
"""
