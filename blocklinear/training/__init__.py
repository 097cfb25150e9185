"""Training: which models, in which order, until when."""

from blocklinear.training.loop import train

__all__ = ["train"]
