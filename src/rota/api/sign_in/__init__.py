"""What signing in does, for the routes of the API and for pages: one set of rules for both."""
