"""For all tests: examples are the same in every run, and a slow machine is no failure."""

from hypothesis import settings

settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")
