"""Names → layers ready to run, and which program each of them really runs."""
