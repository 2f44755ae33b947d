"""Does no torch work at all."""

print("hello", sum(range(10)))
