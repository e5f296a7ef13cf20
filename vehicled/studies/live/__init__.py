"""A live daemon on emulated devices: what a step and a sample cost there, beside the same steps in a warm loop."""
