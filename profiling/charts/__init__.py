"""What page and report draw of a run, and the words beside it: pure, from a table to a figure or a text."""
