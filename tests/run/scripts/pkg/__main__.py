"""Run as `-m pkg`."""

import sys

from training import train

from .settings import STEPS

print(sys.argv, __name__, __package__, __spec__.name if __spec__ else None, train(STEPS).hex())
