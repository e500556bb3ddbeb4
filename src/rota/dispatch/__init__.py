"""The shell around the core: lead a pool, load what may start, decide, authorise, deliver, settle, watch."""
