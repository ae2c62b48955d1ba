"""Ours over several hosts against gloo and Open MPI, in interleaved rounds over the same network namespaces.

    python benchmarks testbed --out FOLDER [--budget SECONDS] [--only '4x1/1000/all_reduce/*'] [--show] ...

command     the command line, and the run
grid        scenes, cells and their names, our candidates
contenders  how each library's ranks are started in the hosts
doors       the driver's socket, seen from every host
pauses      why ranks pause between timings where interfaces are shaped
our_rank    one rank of ours
kept        the samples of a folder
table       the judged table

Hosts are made as `benchmarks/hosts` makes them; samples, rounds and verdicts are those of `benchmarks/peers`.
"""
