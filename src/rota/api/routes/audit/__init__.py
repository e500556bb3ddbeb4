"""The audit log over HTTP: `routes` has the requests, `export` writes its rows as JSON lines or CSV."""
