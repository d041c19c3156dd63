"""A run for others: one HTML file that opens offline, and a summary in Markdown for a pull request."""
