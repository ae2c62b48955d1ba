"""The jobs that measure: tune this host (or a job's hosts), and measure a table's rules again.

tuning      a plan, from the probe to the table that `select` finds
confirming  whether the rules of a table still hold
beginning   what both begin with: the store, the environment, a session, new or continued
publishing  what all runs on this machine decided, as a table, in the store and in its place

May not touch: the terminal; they tell their progress to a callback.
"""

from __future__ import annotations

from .confirming import confirm_table
from .publishing import keep_table
from .tuning import RunResult, plan_of_job, run_plan

__all__ = ["RunResult", "confirm_table", "keep_table", "plan_of_job", "run_plan"]
