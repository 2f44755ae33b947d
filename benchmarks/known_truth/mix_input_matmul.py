"""Three parts of waiting for input to seven of computing."""

import sys

import input as slow

sys.argv[1:] = ["250000"]
slow.main()
