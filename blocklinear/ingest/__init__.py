"""Rows to blocks: split, add, compact."""
