"""The parts of `benches/gateway`: peers, load, measurements, and reports."""
