"""File in, release and manifest and audit out: the only thing the command line calls."""
