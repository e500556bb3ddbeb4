"""Two tenants: whatever one asks about what is the other's, the answer is as if it did not exist."""
