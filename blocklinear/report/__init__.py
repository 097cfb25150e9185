"""Run logs: written, read, followed and drawn; the table that training prints."""
