"""What a job uses at run time: the choice for a call, and (in communicator.py) the calls themselves.

Reads the settings, the host's remembered fingerprint and one table; imports the standard library only.
"""

from .selection import Selection
from .selector import Selector, reload, select
from .source import Source, find_table, open_table

__all__ = ["Selection", "Selector", "Source", "find_table", "open_table", "reload", "select"]
