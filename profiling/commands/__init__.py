"""The commands of the command line, a file each: they parse, call and print."""
