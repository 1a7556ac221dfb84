"""Measurements, apart from the tests: ratios within one process, printed, never asserted."""
