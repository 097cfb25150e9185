"""Models: what training ends with, their files, prediction."""
