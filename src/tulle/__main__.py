"""``python -m tulle`` is the command line."""

from tulle.cli import main

if __name__ == "__main__":
    main()
