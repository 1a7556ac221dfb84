"""What divides: partitions, where clusters start, and how good a division is."""
