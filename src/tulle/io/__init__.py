"""Reading and writing tables: files, databases, text."""
