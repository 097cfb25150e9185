"""The entries of a store by feature: a cache that solvers over features read."""
