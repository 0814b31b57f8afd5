"""Rules between columns: written as text, kept in releases, proposed from tables."""
