"""Studies beside the daemon, which it never imports: linkage observers, particle filters, benchmarks."""
