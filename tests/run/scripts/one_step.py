"""Trains for a single step."""

from training import train

print("loss", train(1).hex())
