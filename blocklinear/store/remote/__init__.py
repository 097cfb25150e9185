"""Stores on URLs: read there, and kept in a folder of the cache as far as they were read."""
