"""Studies, which the daemon never imports: linkage observers, robustness, faults, benchmarks."""
