//! Subscriptions: several items that are paid together, period after period.

mod change;
mod cycle;
mod items;
mod prorate;
mod requests;
mod start;
mod state;

pub(super) use change::{PARAMS as UPDATE_PARAMS, SubscriptionChange, end_with_period, update};
pub(super) use cycle::{attempt_again, pass_time};
pub(super) use items::{next_period, replace_items};
pub(super) use prorate::lines as proration_lines;
pub(super) use requests::{CANCEL_PARAMS, cancel, list, list_items, retrieve, retrieve_item};
pub(super) use start::{
    PARAMS as CREATE_PARAMS, SubscriptionStart, create, has_method, proration_discounts, start,
};
pub(super) use state::{end, invoice_paid, invoice_voided, is_over, live_of};
