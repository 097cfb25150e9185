"""The commands of the program, a module each: its parser, and what it runs."""
