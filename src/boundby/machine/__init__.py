"""The machine: what this computer is, what it was measured to reach, and where that is kept."""
