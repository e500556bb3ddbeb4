"""Routes of schedules: single requests, and applying a schedule as a whole. Runs in a server node."""
