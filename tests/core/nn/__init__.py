"""Tests of core.nn."""
