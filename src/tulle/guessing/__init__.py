"""What the columns of a table are: the evidence about each, and one table that judges it."""
