"""A daemon on emulated devices, each in a process of its own, started, watched and ended by a third."""
