"""The page: starts sweeps, watches them, and draws what they measured. It reads run folders and never loads torch."""
