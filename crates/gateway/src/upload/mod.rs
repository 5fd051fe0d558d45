//! The upload of a file (specification 4.3): what it adds to the life of a call.
//!
//! The caller's form is read part by part: its file goes to disk, its fields are checked. What leaves is a form
//! of our own with the checked fields. Everything else, from the hold to the settlement, is any write's.

mod fields;
mod form;
mod outgoing;
pub mod spool;

use axum::body::Body;
use catalog::Route;
use clients::platform::RequestBody;
use failures::Failure;
use http::HeaderValue;
use web::error::ApiError;

use self::form::UploadForm;
use super::account_entry::AccountEntry;
use super::admit::{Content, RequestHead, Whole};
use super::limits;
use crate::state::GatewayState;

/// An upload that is ready to leave: a form whose file is on disk.
pub(super) struct Upload {
    form: UploadForm,
    boundary: String,
}

/// Reads an upload once nothing local speaks against it; only its fields are not known before.
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
        // A repeat is free, so only what is no repeat can be refused before it is read.
        limits::check_balance(gateway, &arrival.key, cost).await?;
    }
    let wants_hash = arrival.idempotency.is_some();
    let customer = arrival.key.customer;
    let reading = form::FormReading { boundary, wants_hash, customer };
    let form = form::read(gateway, route, body, reading).await?;
    let upload = Upload { form, boundary: hex::encode(gateway.random.bytes::<16>()) };
    Ok(Whole { arrival, content: Content::Upload(upload), passed: Some(passed) })
}

/// The catalogue's entry of the upload, on the platform that has one.
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
    /// What the platform is to get: the content type with its boundary, and the body as it leaves.
    pub(super) fn outgoing(&self) -> (HeaderValue, RequestBody) {
        outgoing::request_body(&self.form, &self.boundary)
    }

    /// What makes two uploads the same: the fields as they leave and the file, not the caller's framing.
    pub(super) fn digest(&self) -> [u8; 32] {
        self.form.digest()
    }
}
