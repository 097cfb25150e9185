"""The command line: one file per command; it translates, never computes."""
