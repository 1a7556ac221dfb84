"""Steps every method shares: partition, project, describe, evaluate."""
