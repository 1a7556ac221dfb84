"""Tests of core/topics."""
