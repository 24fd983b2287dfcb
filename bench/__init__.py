"""Side-by-side benchmarks: every comparison in one process, correct before it is timed, medians of interleaved runs."""
