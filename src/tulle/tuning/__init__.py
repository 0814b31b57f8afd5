"""The search for the group size."""
