"""Topicscope without a browser: from a table of texts to a labelled table."""

__version__ = "0.2.0"
