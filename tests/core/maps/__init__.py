"""Tests of core/maps."""
