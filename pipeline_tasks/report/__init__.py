"""What a person reads of a run: one HTML file that needs no network, or Markdown for a pull request."""
