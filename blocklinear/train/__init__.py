"""Training: which models, in which order, until when."""

from blocklinear.train.loop import train

__all__ = ["train"]
