"""The only folder that speaks SQL. One statement a file in sql/, named as the function that runs it."""
