"""What is measured: one file for each kind of work. Each gives a `Section` of the results."""
