"""What the machine is made of: devices, links, the probes that read them, the fingerprint that tells machines apart.

In: text files of the operating system, measured figures. Out: ``graph.Topology`` and its fingerprint. Standard library
only, since ``select`` imports ``fingerprint``; nothing here runs a program or knows a schedule.
"""
