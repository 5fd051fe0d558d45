//! Payments: purchases, grants, changes and reversals, with the simulated processor.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod authentication;
mod card_on_file;
mod cards;
mod companies;
mod credit_notes;
mod disputes;
mod doubles;
mod economics;
mod events;
mod expiry;
mod invoices;
mod lost;
mod notices;
mod offered_prices;
mod once;
mod packs;
mod past_due;
mod payer;
mod plan_changes;
mod plan_steps;
mod plan_versions;
mod reconcile;
mod restored;
mod reversals;
mod setup;
mod slots;
mod subscriptions;
mod top_ups;
mod versions;
