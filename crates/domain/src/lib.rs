//! The terms of the product and the rules between them.
//!
//! Pure by construction: no async, no I/O, no clock and no randomness of its own. Times and random
//! bytes are arguments, so every rule has the same result on every node and in every test.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod account;
pub mod billing_period;
pub mod breakdown;
pub mod call_tag;
pub mod charge;
pub mod common_passwords;
pub mod credits;
pub mod customer;
pub mod dataset;
pub mod dispute;
pub mod export;
pub mod field_error;
pub mod hosts;
pub mod id;
pub mod invoice;
pub mod job;
pub mod key;
pub mod ledger;
pub mod lots;
pub mod mail;
pub mod method;
pub mod notice;
pub mod payment;
pub mod per_platform;
pub mod plan;

pub mod platform;
pub mod repeat;
pub mod request_key;
pub mod sales;
pub mod slot;
pub mod split;
pub mod staff;
pub mod subscription;
pub mod time;
pub mod token;
pub mod top_up;
pub mod window;
mod wire;
