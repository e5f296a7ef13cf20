"""Studies beside the daemon, which it never imports: linkage observers, robustness, faults, benchmarks."""
