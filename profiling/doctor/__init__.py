"""What this machine can measure, what will disturb it, and what to do: `python -m profiling doctor`."""
