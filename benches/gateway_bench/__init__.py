"""The parts of `benches/gateway`: peers, load, what is measured, and how it is written down."""
