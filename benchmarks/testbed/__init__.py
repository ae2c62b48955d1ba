"""Ours over several hosts against gloo and Open MPI, in interleaved rounds over the same network namespaces.

    python benchmarks testbed [--quick] [--placements 4x1,2x2] [--rates 1000,0] [--sizes ...] [--collective ...]

command     the command line, and the run
contenders  how each library's ranks are started in the hosts
doors       the driver's socket, seen from every host
our_rank    one rank of ours

Hosts are made as `benchmarks/hosts` makes them; samples, rounds and verdicts are those of `benchmarks/peers`.
"""
