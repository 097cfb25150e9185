"""How it is optimised: what is done on the rows of a group."""
