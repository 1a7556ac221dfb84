"""Tests of core/bench."""
