"""Several hosts on one machine: network namespaces joined by a shaped bridge, and ranks in them.

    network ──► launch ──► findings ──► command (python benchmarks hosts up | down | run | findings)

Two links share nothing but the cores: every host has one interface of a given rate, each way.
"""
