"""Tests of core/encoder."""
