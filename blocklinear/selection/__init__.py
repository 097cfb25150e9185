"""Which C: folds, cross-validation, a grid, the search."""
