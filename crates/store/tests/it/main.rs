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
mod adjustments;
mod breakdown;
mod budgets;
mod call_details;
mod calls;
mod claims;
mod connections;
mod customer_dump;
mod customer_notices;
mod customer_shards;
mod customers;
mod data_keys;
mod disputes;
mod ended_subscriptions;
mod erased_data;
mod erasure;
mod export_pauses;
mod exports;
mod failures;
mod idempotency;
mod invoices;
mod jobs;
mod keys;
mod ledger;
mod liability;
mod login_networks;
mod lost_orders;
mod lots;
mod mail_links;
mod metering;
mod migrated_calls;
mod notice_reasons;
mod notices;
mod opening;
mod operator_lists;
mod orders;
mod own_requests;
mod payments;
mod plan_versions;
mod platform_health;
mod processor;
mod random;
mod recorded_payments;
mod recovery;
mod retention;
mod reversals;
mod sessions;
mod slot_changes;
mod slot_money;
mod small;
mod staff;
mod subscriptions;
mod support;
mod suspensions;
mod takeover;
mod top_up_limits;
mod top_ups;
mod traveling_reads;
mod unmatched_settlements;
mod usage;
mod verify;
mod whole_customer;
mod withheld_reads;
