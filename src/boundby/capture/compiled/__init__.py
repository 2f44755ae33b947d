"""Regions that torch.compile compiled: what they run after fusion, and what they would be op by op."""
