"""One probe a file, each of two halves: ``collect`` touches the machine, ``parse`` is a pure function of what it wrote.

A recording is a dict from path to text, so that every odd machine can be kept as a file and parsed again anywhere.
"""
