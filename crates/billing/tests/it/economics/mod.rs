//! Money and credits compared with the reference model: its scenarios and random sequences, run
//! against the service and the simulated processor with one clock.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod acts;
mod adversary;
mod at_processor;
mod companies;
mod compare;
mod interrupted;
mod look;
mod notes;
mod play;
mod purchases;
mod sales;
mod scenario;
mod side;
mod spending;
mod vectors;
mod world;
