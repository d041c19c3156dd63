"""`python -m profiling`."""

from profiling.cli import main

main()
