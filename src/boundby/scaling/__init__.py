"""The laws of scaling, and what measured thread counts say by them. Pure functions."""
