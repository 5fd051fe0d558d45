//! Phase 3, prepare: the request as the platform expects it.
//!
//! Shorthands become full paths with the creator's own id, default query parameters are added (an explicit one
//! always wins), and the platform's headers, credentials, version and signature are put on.

use bytes::Bytes;
use catalog::shorthand;
use clients::platform::{NativeCall, RequestBody, SigningInput};

use super::accounts::AccountEntry;
use super::admit::{Content, Plan, Whole};
use super::call::Setting;
use crate::error::{ApiError, FieldProblem};

/// Where the request goes below the platform's prefix.
pub(super) struct Destination {
    pub(super) path: String,
    pub(super) query: String,
}

/// Rewrites the path and the query. A parameter of ours that the caller gave twice is refused.
pub(super) fn destination(
    whole: &Whole,
    account: &AccountEntry,
    plan: &Plan,
) -> Result<Destination, ApiError> {
    let arrival = &whole.arrival;
    let refused = |problem: catalog::FieldProblem| ApiError::from(FieldProblem::from(problem));
    let (path, query) = match &plan.shorthand {
        None => (arrival.native_path().to_owned(), arrival.query().to_owned()),
        Some(target) => {
            let id = &account.platform_account_id;
            shorthand::rewrite(target, id, arrival.parts.uri.query()).map_err(refused)?
        }
    };
    let query = shorthand::with_defaults(&query, &plan.default_query).map_err(refused)?;
    Ok(Destination { path, query })
}

/// Builds the request. The credentials are opened here and live as long as it takes.
pub(super) fn request(
    setting: &Setting<'_>,
    destination: &Destination,
    call_id: &str,
) -> Result<http::Request<RequestBody>, ApiError> {
    let Setting { app, target, whole, account, .. } = *setting;
    let credentials = account.credentials()?;
    let call = NativeCall {
        call_id,
        method: whole.arrival.method,
        path: &destination.path,
        query: &destination.query,
        caller_headers: &whole.arrival.parts.headers,
        body: match &whole.content {
            Content::Native(body) => body.bytes.clone(),
            Content::Upload(_) => Bytes::new(),
        },
        credentials: &credentials,
        signing: SigningInput { now: setting.now, nonce: app.random.bytes() },
    };
    let built = match &whole.content {
        Content::Native(_) => target.request(&call),
        Content::Upload(upload) => {
            let (content_type, form) = upload.outgoing();
            target.request_with(&call, form).map(|mut request| {
                // The caller's names the boundary of another form.
                request.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
                request
            })
        }
    };
    built.map_err(|error| {
        tracing::error!(call.id = call_id, %error, "a request to a platform could not be built");
        ApiError::Internal("a request to a platform could not be built".to_owned())
    })
}
