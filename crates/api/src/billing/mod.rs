//! Billing: the balance and the ledger, what can be bought, and how it is paid.
//!
//! A handler unpacks the request, calls one flow of `billing` and responds. Requests that cost
//! money or decide about it need full scope and are refused to limited keys: a key with a budget
//! must not be able to buy credits.

mod autotopup;
mod card;
mod charge;
mod checkout;
mod estimate;
mod invoices;
mod ledger;
mod orders;
mod overview;
mod plan;
mod plans;
mod slot_previews;
mod slots;
mod subscription;
mod webhook;

use utoipa_axum::router::OpenApiRouter;

use crate::ApiState;

/// Every route below `/v1/billing` except those of usage.
pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .merge(overview::router())
        .merge(ledger::router())
        .merge(plans::router())
        .merge(estimate::router())
        .merge(checkout::router())
        .merge(orders::router())
        .merge(invoices::router())
        .merge(card::router())
        .merge(autotopup::router())
        .merge(charge::router())
        .merge(subscription::router())
        .merge(plan::router())
        .merge(slots::router())
        .merge(slot_previews::router())
        .merge(webhook::router())
}
