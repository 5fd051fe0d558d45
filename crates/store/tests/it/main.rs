//! Tests of the store on every available database: each function, races, crashes, and the ledger.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test must fail when something unexpected happens"
)]

mod account_cookies;
mod account_switch;
mod accounts;
mod breakdown;
mod budgets;
mod calls;
mod connections;
mod customer_notices;
mod customer_shards;
mod customers;
mod data_keys;
mod ended_subscriptions;
mod erasure;
mod exports;
mod failures;
mod idempotency;
mod invoices;
mod jobs;
mod keys;
mod ledger;
mod liability;
mod login_networks;
mod mail_links;
mod metering;
mod migrated_calls;
mod notices;
mod opening;
mod own_requests;
mod payments;
mod plan_versions;
mod platform_health;
mod processor;
mod random;
mod recovery;
mod retention;
mod sessions;
mod slot_changes;
mod small;
mod staff;
mod subscriptions;
mod support;
mod top_ups;
mod traveling_reads;
mod usage;
mod verify;
mod withheld_reads;
