"""A row of a run as one Python script that needs torch alone: what it is put together from, and what it may contain."""
