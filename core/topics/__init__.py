"""What names: the words, the typical texts and the names of clusters."""
