//! The kinds of jobs that concern payments.

pub mod adjust_credit;
pub mod delete_payer;
pub mod process_event;
pub mod update_email;
pub mod use_card;
