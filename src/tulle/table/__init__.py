"""Tables: reading and writing, column roles, table <-> numeric matrix."""
