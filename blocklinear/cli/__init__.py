"""The command line: commands, and what they share; it translates, never computes."""
