"""`python -m blocklinear`, where the command is not on the path."""

from blocklinear.cli.main import program

program()
