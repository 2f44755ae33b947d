"""Run as `-m pkg.train`: relative imports, the module's spec."""

import os
import sys

import training

from . import settings
from .settings import STEPS

if __name__ == "__main__":
    print(sys.argv, __name__, __file__, __package__, __spec__.name if __spec__ else None, sys.path)
    print(settings.__name__, os.getcwd(), sys.modules["__main__"].__dict__ is globals())
    print("loss", training.train(STEPS).hex())
