"""Remedies: one file each, which predicts what a change would do and applies it; trials measure what it did."""
