"""Figures: drawn by matplotlib from plain numbers, as files, objects or SVG within a page."""
