"""What draws: UMAP and t-SNE in a child process, and one frame laid onto the last."""
