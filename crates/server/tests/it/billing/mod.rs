//! Payments: what is bought, granted once, changed, and taken back, with the simulated processor.

mod slots;
mod subscriptions;
