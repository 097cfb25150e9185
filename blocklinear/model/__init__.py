"""Trained models: parameters, files, predictions and their scores."""
