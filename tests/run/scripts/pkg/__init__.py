"""A package with a runnable module."""
