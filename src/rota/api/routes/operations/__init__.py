"""Operations over HTTP: `routes` has the requests, `selecting` reads their filters."""
