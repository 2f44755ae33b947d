"""The words of boundby as frozen dataclasses: pure data, no torch."""
