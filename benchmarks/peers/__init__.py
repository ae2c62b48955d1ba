"""Our native executor against gloo, Open MPI, MPICH, Intel MPI and oneCCL, in interleaved rounds on one host.

    python benchmarks peers [--quick] [--collective ...] [--ranks 2,4,8] [--sizes ...] [--peers ...] [--budget SECONDS]
    [--resume CSV]

command    the command line
comparison what a run does, in which order
lineup     who takes part at one number of ranks
cells      what is measured: collectives x rank counts x sizes
libraries  how each library is installed, compiled and launched; its yield settings
install    virtual environments and compiled samplers, in the cache
ours       our ranks, and a race of our candidates
choosing   the race of all cells, which keeps the default where nothing else is faster throughout
earlier    what an earlier piece of the same run measured
rounds     interleaved rounds, spent where the decision is least certain
judgement  won, held, lost or undecided; geometric means
floors     what the hardware allows at two ranks
prototypes rows for throwaway programs whose source is given by path
output     the table, CSV of every sample, JSON summary
csrc       the samplers in C; our_rank.py and gloo_rank.py are those in Python

What runs on the ranks of an MPI, how they are asked, and what a sample is, the same for all: autotune.backends.mpi_*,
where the backends openmpi and mpich use it, too.
"""
