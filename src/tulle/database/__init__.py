"""Tables about people, condensed together: other people, with rows and keys of their own."""
