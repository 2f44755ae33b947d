"""Trains slowly and says after each step that it is done."""

import time

from training import train


def before_step(step):
    print("step", step, flush=True)
    time.sleep(0.05)


train(400, before_step)
print("not interrupted")
