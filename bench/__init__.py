"""Speed, measured on the present machine. No tests: nothing fails, and only ratios within one run are comparable."""
