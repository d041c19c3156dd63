"""What runs in the measuring child: the only part of `profiling` that imports torch and `mha`."""
