//! The database layer: the only crate that speaks SQL.
//!
//! A public function is one transaction, named after what it does for the business. Expected
//! outcomes are return values; errors are failures. SQL is written once for SQLite and PostgreSQL;
//! `dialect` holds the parts of statements that differ. Callers pass in ids and times: SQL never
//! reads the clock.

pub mod account_switch;
pub mod accounts;
pub mod audit;
pub mod authority;
mod balance;
mod balance_cache;
pub mod calls;
pub mod cards;
pub mod change_previews;
pub mod confirmations;
pub mod connections;
pub mod customers;
pub mod data_keys;
mod dialect;
mod direct;
mod disk;
pub mod email_changes;
pub mod ended_subscriptions;
mod error;
pub mod exports;
pub mod idempotency;
pub mod invoice_notices;
pub mod jobs;
pub mod key_changes;
pub mod key_list;
pub mod keys;
pub mod ledger;
pub mod ledger_pages;
pub mod login_networks;
pub mod lost_leases;
pub mod lots;
pub mod mail_links;
pub mod metering;
mod migrations;
pub mod nodes;
pub mod notices;
mod options;
pub mod orders;
pub mod own_requests;
pub mod password_resets;
mod payment_rules;
pub mod payments;
pub mod permissions;
pub mod plan_versions;
pub mod platform_health;
mod postgres;
mod private_files;
pub mod processor_customers;
pub mod processor_events;
pub mod registration;
pub mod reversals;
pub mod routes;
pub mod sales;
pub mod sessions;
pub mod slot_assignment;
pub mod slot_changes;
pub mod slot_credits;
pub mod slot_limits;
mod sql;
mod sqlite;
pub mod standbys;
mod statement_batch;
mod store;
pub mod subscription_offers;
pub mod subscriptions;
pub mod support_access;
#[cfg(feature = "testing")]
pub mod testing;
pub mod top_up_settings;
pub mod top_ups;
mod tx;
pub mod unmatched;
pub mod usage;
pub mod verify;

pub use error::StoreError;
pub use options::{DatabaseKind, OpenOptions, StoreAccess};
pub use store::{SchemaSteps, Store, check_url};
