//! Payments: what joins the books to the payment processor.
//!
//! Credits are granted for a payment in one place only (`fulfil`), however the payment became known; everything here
//! that learns of one ends there. What the processor says is read from the processor, never believed from a browser
//! or from an event. A row is committed before the request that it is about leaves, and its id is what repeated
//! requests are known by.

pub(crate) mod card_on_file;
pub(crate) mod cards;
mod change_requests;
pub(crate) mod changes;
pub(crate) mod charge;
pub(crate) mod checkout;
mod credit;
pub(crate) mod decide;
pub(crate) mod fulfil;
pub(crate) mod give_up;
pub(crate) mod invoices;
pub(crate) mod lost;
pub(crate) mod lots;
pub(crate) mod low_balances;
mod opening;
pub(crate) mod pay_links;
pub(crate) mod payer;
mod period;
pub(crate) mod plan_changes;
pub(crate) mod plan_versions;
pub(crate) mod plans;
pub(crate) mod previews;
pub(crate) mod reconcile;
pub(crate) mod reversals;
pub(crate) mod slot_credits;
mod sold;
pub(crate) mod subscribe;
pub(crate) mod subscriptions;
pub(crate) mod top_up_worker;
pub(crate) mod top_ups;
pub(crate) mod webhook;

use std::fmt::Display;

use clients::processor::IdempotencyKey;
use failures::Failure;
use settings::billing::Pack;

use crate::app::App;
use crate::error::ApiError;

/// The pack of this id. Prices come from here alone.
pub(crate) fn pack<'a>(app: &'a App, id: &str) -> Result<&'a Pack, ApiError> {
    const NO_PACK: ApiError = ApiError::Failure(Failure::NotFound(
        "there is no pack of that id; `GET /v1/billing/plans` lists them",
    ));
    app.config.packs.iter().find(|pack| pack.id == id).ok_or(NO_PACK)
}

/// What the processor knows the request of this kind about this row by, however often it is sent.
pub(crate) fn key(kind: &str, id: impl Display) -> Result<IdempotencyKey, ApiError> {
    IdempotencyKey::of(kind, id)
        .map_err(|error| ApiError::Failure(Failure::Internal(error.to_string())))
}
