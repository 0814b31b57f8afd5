"""``python -m tulle`` is the command line."""

from tulle.cli import main

main()
