//! The upload of a file (specification 4.3): how it differs from other calls.
//!
//! The caller's form is read part by part: its file is written to disk, its fields are checked. The
//! platform receives a form of our own with the checked fields. Everything else, from the hold to
//! the settlement, is the same as for any write.

mod fields;
mod form;
mod outgoing;
pub mod spool;

use axum::body::Body;
use catalog::Route;
use failures::Failure;
use http::HeaderValue;
use platform_client::RequestBody;
use web::error::ApiError;

use self::form::UploadForm;
use super::account_entry::AccountEntry;
use super::admit::{Content, RequestHead, Whole};
use super::limits;
use crate::state::GatewayState;

/// An upload that is ready to be sent: a form whose file is on disk.
pub(super) struct Upload {
    form: UploadForm,
    boundary: String,
}

/// Reads an upload after all local checks except those of its fields.
pub(super) async fn receive(
    gateway: &GatewayState,
    arrival: RequestHead,
    account: &AccountEntry,
    body: Body,
) -> Result<Whole, ApiError> {
    let route = route(gateway, account)?;
    account.check_in_use()?;
    gateway.accounts().target(account.platform)?;
    let boundary = form::boundary(&arrival.parts.headers)?;
    let cost = route.cost(&gateway.config.credits.costs());
    let passed = limits::check(gateway, &arrival.key, account, cost, gateway.clock.now()).await?;
    if arrival.idempotency.is_none() {
        // A repetition is free, so only a request without a key can be refused for its balance
        // before it is read.
        limits::check_balance(gateway, &arrival.key, cost).await?;
    }
    let wants_hash = arrival.idempotency.is_some();
    let customer = arrival.key.customer;
    let reading = form::FormReading { boundary, wants_hash, customer };
    let form = form::read(gateway, route, body, reading).await?;
    let upload = Upload { form, boundary: hex::encode(gateway.random.bytes::<16>()) };
    Ok(Whole { arrival, content: Content::Upload(upload), passed: Some(passed) })
}

/// The upload's route in the catalogue of the account's platform.
pub(super) fn route<'a>(
    gateway: &'a GatewayState,
    account: &AccountEntry,
) -> Result<&'a Route, ApiError> {
    let platform = account.platform;
    gateway
        .catalog
        .platform(platform)
        .upload()
        .ok_or(ApiError::Failure(Failure::UnsupportedPlatform(platform)))
}

impl Upload {
    /// The outgoing request: the content type with its boundary, and the body.
    pub(super) fn outgoing(&self) -> (HeaderValue, RequestBody) {
        outgoing::request_body(&self.form, &self.boundary)
    }

    /// A digest by which two uploads are compared: the outgoing fields and the file, not the
    /// caller's framing.
    pub(super) fn digest(&self) -> [u8; 32] {
        self.form.digest()
    }
}
