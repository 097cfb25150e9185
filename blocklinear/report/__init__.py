"""Run logs."""
