"""Speed, measured on the machine at hand. Not tests: nothing here fails, and only ratios within one run count."""
