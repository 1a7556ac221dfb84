"""Texts become tokens become vectors."""
