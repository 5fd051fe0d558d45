"""The measurements: one file for each kind of work. Each returns a `Section` of the results."""
