"""What the machine is made of: devices, links, the probes that read them, the fingerprint that tells machines apart.

In: text files of the operating system, what vendors' tools print, recordings of both, measured figures. Out:
``graph.Topology`` and its fingerprint. Standard library only (but for the YAML of ``machines``), since ``select``
imports ``fingerprint``. Only ``probes.commands`` runs programs; nothing here knows a schedule.
"""
