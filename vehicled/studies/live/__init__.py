"""A live daemon on emulated devices: cost of a step and of a sample, compared with the same steps in a warm loop."""
