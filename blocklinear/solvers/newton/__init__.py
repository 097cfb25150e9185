"""Newton's method on the primal: of smooth losses, and of others by proximal points."""
