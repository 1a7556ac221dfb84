"""Networks that learn: losses, heads, the trunk entered at any height, and the loop that trains them."""
