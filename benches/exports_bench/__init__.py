"""The measurement of exports; `benches/exports` is its command."""
