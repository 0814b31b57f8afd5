"""Baskets: compressed rows, their inverted file, and FIMI files of them."""

from tulle.transactions.baskets import Transactions
from tulle.transactions.fimi import fimi_blocks, read_fimi, write_fimi

__all__ = ["Transactions", "fimi_blocks", "read_fimi", "write_fimi"]
