"""What could spoil a measurement: each check a pure function of what was read of the surroundings."""
