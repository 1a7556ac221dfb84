"""Tests of core/augment."""
