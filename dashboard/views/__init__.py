"""One module a view of the page; each has a `show` that draws it from top to bottom."""
