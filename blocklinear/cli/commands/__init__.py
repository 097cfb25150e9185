"""The commands of the program, a module each: what it takes, and how it is run."""
