"""Tests of core/clusters."""
