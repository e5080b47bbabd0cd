"""Hands a run on to experiment trackers: python -m sluice.track wandb|mlflow RUN."""
