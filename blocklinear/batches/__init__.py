"""Batches of rows from memory in, the rows of the tokenizer out: arrays, matrices and tables."""
