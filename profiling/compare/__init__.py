"""Any two runs, or a run and a baseline file: what changed, what may be claimed of it, and what was not compared.

Nothing here prints. `compare_runs` of `profiling.compare.comparing` gives one result that holds everything told.
"""
