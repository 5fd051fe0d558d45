//! Phase 3, prepare: builds the request as the platform expects it.
//!
//! Shorthands become full paths with the creator's id, default query parameters are added unless
//! the caller sent them, and the platform's headers, credentials, version and signature are set.

use std::borrow::Cow;

use bytes::Bytes;
use catalog::shorthand;
use domain::field_error::FieldErrorKind;
use domain::id::CallId;
use failures::Failure;
use failures::FieldProblem;
use platform_client::{CallErrorKind, NativeCall, PlatformTarget, RequestBody, SigningInput};
use web::error::ApiError;

use super::account_entry::AccountEntry;
use super::admit::{CallPlan, Content, Whole};
use super::call_context::CallContext;

/// The path and query of the request, below the platform's prefix.
pub(super) struct CallDestination<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) query: String,
}

/// Rewrites the path and the query. Refuses a shorthand whose query names a creator as well.
pub(super) fn destination<'a>(
    platform: &PlatformTarget,
    whole: &'a Whole,
    account: &AccountEntry,
    plan: &CallPlan,
) -> Result<CallDestination<'a>, ApiError> {
    let arrival = &whole.arrival;
    let refused = |problem: catalog::FieldProblem| ApiError::from(FieldProblem::from(problem));
    let (path, query) = match &plan.shorthand {
        None => (Cow::Borrowed(arrival.native_path()), Cow::Borrowed(arrival.query())),
        Some(target) => {
            let id = &account.platform_account_id;
            let rewritten = shorthand::rewrite(target, id, arrival.parts.uri.query());
            let (path, query) = rewritten.map_err(refused)?;
            (Cow::Owned(path), Cow::Owned(query))
        }
    };
    let query = shorthand::with_defaults(&query, &plan.default_query);
    if let Some(name) = platform.reserved_parameter(&query) {
        let message = "the service adds this parameter itself; leave it out";
        let kind = FieldErrorKind::NotAllowed;
        return Err(FieldProblem::new("query", name, kind, message).into());
    }
    Ok(CallDestination { path, query })
}

/// Builds the request of this call.
pub(super) fn request(
    setting: &CallContext<'_>,
    destination: &CallDestination<'_>,
    call: CallId,
) -> Result<http::Request<RequestBody>, ApiError> {
    let CallContext { gateway, target, whole, account, .. } = *setting;
    let native = NativeCall {
        call_id: &call,
        method: whole.arrival.method,
        path: &destination.path,
        query: &destination.query,
        caller_headers: &whole.arrival.parts.headers,
        body: match &whole.content {
            Content::Native(body) => body.bytes.clone(),
            Content::Upload(_) => Bytes::new(),
        },
        account: account.headers(target)?,
        signing: SigningInput { now: setting.now, nonce: gateway.random.bytes() },
    };
    let built = match &whole.content {
        Content::Native(_) => target.request(&native),
        Content::Upload(upload) => {
            let (content_type, form) = upload.outgoing();
            target.request_with(&native, form).map(|mut request| {
                // The caller's header names the boundary of the form it sent, not of this one.
                request.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
                request
            })
        }
    };
    built.map_err(|error| {
        if let CallErrorKind::Signing(_) = error.kind {
            tracing::warn!(call.id = %call, %error, "a request to a platform was not signed");
            return ApiError::Failure(Failure::of_harmless(&error));
        }
        tracing::error!(call.id = %call, %error, "a request to a platform could not be built");
        ApiError::Failure(Failure::Internal(
            "a request to a platform could not be built".to_owned(),
        ))
    })
}
