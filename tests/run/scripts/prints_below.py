"""Writes to its standard output in three ways: print, the descriptor, a child."""

import os
import subprocess
import sys

from training import train

print("by print", flush=True)
train(30)
os.write(1, b"by descriptor\n")
subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
print("done")
