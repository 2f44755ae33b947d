"""Inference of language models on paper: structures, hardware, kernels and launches, prefill and decode.

Imports neither torch nor numpy. ``boundby.llm.decode.estimate_decode`` is where to begin.
"""
