//! Payments: what is bought, granted once, changed, and taken back, with the simulated processor.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets what it does not expect must fail, and has the stack to itself"
)]

mod authentication;
mod card_on_file;
mod cards;
mod events;
mod lost;
mod once;
mod packs;
mod past_due;
mod payer;
mod plan_changes;
mod plan_steps;
mod plan_versions;
mod reconcile;
mod repeats;
mod responses;
mod reversals;
mod slots;
mod subscriptions;
mod top_ups;
