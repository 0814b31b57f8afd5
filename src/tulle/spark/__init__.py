"""Tulle on a Spark cluster: tables larger than a machine (``pip install 'tulle[spark]'``).

Spark only moves bytes: what is done with a record is what :mod:`tulle._large` does on one machine,
and the same seed gives the same release on both. Only the DataFrame API is used, on the session
that is there.
"""

from __future__ import annotations

from tulle.spark._condense import condense
from tulle.spark._mine import association_rules, frequent_itemsets
from tulle.spark._rows import encode, sketch
from tulle.spark._stream import into_stream

__all__ = ["association_rules", "condense", "encode", "frequent_itemsets", "into_stream", "sketch"]
