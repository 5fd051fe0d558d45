//! `Idempotency-Key` on the service's own routes: a repeated request is carried out once, and each
//! repetition gets the first response.
//!
//! This is a layer around all operations that change something (`routes`), so new ones are covered
//! automatically. The first request claims a row, runs, and stores its response, sealed;
//! repetitions find the row. A refusal frees the key. Native calls, uploads and the creation of
//! exports do the same in the transactions that hold their credits.

mod attempt;
mod ending;
mod identity;
pub mod routes;

use attempt::{RequestAttempt, leased_until};
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::id::{ChangeId, DataKeyId, RunId};
use domain::key::KeyScope;
use domain::request_key::RequestKey;
use failures::Failure;
use failures::{NotStored, UnknownOutcome};
use http::request::Parts;
use runtime::CurrentDataKey;
use runtime::sealing::DataKey;
use store::own_requests::{
    self, KnownRequest, NewRequest, RequestClaim, RequestState, RequestTakeover,
};

use crate::auth;
use crate::error::{ApiError, HarmlessFailure};
use crate::idempotency::{self, ResponseSeal};
use crate::{BodyOf, WebState};

pub use ending::NotKept;
use identity::{RequestSender, fingerprint};
use routes::RepeatableOperation;
/// The id for a change of slots or of the plan, if the request has an `Idempotency-Key`. All
/// attempts at the request share it, so that a later attempt finds the change of an earlier one.
#[derive(Debug, Clone, Copy)]
pub struct ChangeOfRequest(pub Option<ChangeId>);

impl<S: Send + Sync> FromRequestParts<S> for ChangeOfRequest {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or(Self(None)))
    }
}

/// A request with its body and its sender.
struct KeyedRequest {
    operation: RepeatableOperation,
    key: RequestKey,
    identity: RequestSender,
    parts: Parts,
    body: Bytes,
}

/// How a request proceeds.
enum RequestTurn {
    /// It is carried out.
    Run(RequestAttempt),
    /// It was carried out before and gets the stored response.
    Replay(Response),
}

/// Carries out a request with an `Idempotency-Key` once. All other requests pass.
pub async fn once(State(web): State<WebState>, request: Request, next: Next) -> Response {
    let Some(operation) = RepeatableOperation::of(&request) else { return next.run(request).await };
    let key = match crate::idempotency_key::read(request.headers()) {
        Ok(Some(key)) => key,
        Ok(None) => return next.run(request).await,
        Err(refused) => return refused.into_response(),
    };
    Box::pin(once_with(&web, operation, key, request, next)).await.unwrap_or_else(|refused| {
        let mut response = refused.into_response();
        // Either it failed before anything was carried out, or the key keeps a repetition from
        // taking effect twice.
        response.extensions_mut().insert(HarmlessFailure);
        response
    })
}

async fn once_with(
    web: &WebState,
    operation: RepeatableOperation,
    key: RequestKey,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (mut parts, incoming) = request.into_parts();
    let caller = auth::identify(web, &parts, operation.is_for_sessions()).await?;
    if caller.scope() != KeyScope::Full {
        // Every operation here changes something.
        return Err(ApiError::Failure(Failure::ReadOnlyKey));
    }
    web.control_limits.admit_keyed(&parts, caller.share(), web.clock.now())?;
    parts.extensions.insert(BodyOf(caller.customer));
    let bytes_max = web.config.http.limits.json_body_bytes_max;
    let body = web.read_body(&parts.extensions, incoming, bytes_max).await?;
    let asked = KeyedRequest { operation, key, identity: RequestSender::of(&caller), parts, body };
    match take_turn(web, &asked).await? {
        RequestTurn::Replay(response) => Ok(response),
        RequestTurn::Run(attempt) => {
            let mut again = Request::from_parts(asked.parts, Body::from(asked.body));
            again.extensions_mut().insert(ChangeOfRequest(Some(attempt.change)));
            attempt.carry_out(web, next.run(again)).await
        }
    }
}

/// Claims the request, or determines what its repetition gets.
async fn take_turn(web: &WebState, asked: &KeyedRequest) -> Result<RequestTurn, ApiError> {
    let CurrentDataKey { id: data_key_id, key: data_key } =
        web.vault.current(asked.identity.customer).await?;
    let now = web.clock.now();
    let operation = asked.operation.name();
    let new = NewRequest {
        name: asked.identity.request(asked.key),
        operation: &operation,
        fingerprint: fingerprint(&data_key, &asked.parts, &asked.body)?,
        data_key: data_key_id,
        run: RunId::new(now, web.random.bytes()),
        change: ChangeId::new(now, web.random.bytes()),
        leased_until: leased_until(now),
        created_at: now,
        expires_at: now.plus_seconds(idempotency::KEPT_FOR_S),
    };
    match own_requests::claim(&web.store, &new).await? {
        RequestClaim::Claimed => Ok(RequestTurn::Run(attempt(asked, &new, data_key))),
        RequestClaim::Known(known) => repeat(web, asked, new, data_key, known).await,
        RequestClaim::Busy => Err(ApiError::Failure(Failure::IdempotencyInProgress)),
    }
}

fn attempt(asked: &KeyedRequest, new: &NewRequest<'_>, data_key: DataKey) -> RequestAttempt {
    RequestAttempt {
        name: new.name,
        run: new.run,
        change: new.change,
        data_key,
        identity: asked.identity.clone(),
        may_run_again: asked.operation.may_run_again(),
    }
}

/// Determines what a repetition gets.
async fn repeat(
    web: &WebState,
    asked: &KeyedRequest,
    new: NewRequest<'_>,
    current: DataKey,
    known: KnownRequest,
) -> Result<RequestTurn, ApiError> {
    let data_key = if known.data_key == new.data_key {
        current
    } else {
        data_key_of(web, known.data_key).await?
    };
    if !known.has_fingerprint(&fingerprint(&data_key, &asked.parts, &asked.body)?) {
        return Err(ApiError::Failure(Failure::IdempotencyMismatch));
    }
    let permissions = &asked.identity.permissions;
    match &known.state {
        RequestState::Running { free_from }
            if free_from.is_none_or(|free_from| new.created_at < free_from) =>
        {
            Err(ApiError::Failure(Failure::IdempotencyInProgress))
        }
        RequestState::Running { .. } if asked.operation.may_run_again() => {
            let takeover = RequestTakeover {
                from: known.run,
                to: new.run,
                now: new.created_at,
                leased_until: new.leased_until,
            };
            if !own_requests::take_over(&web.store, &new.name, takeover).await? {
                return Err(ApiError::Failure(Failure::IdempotencyInProgress));
            }
            let new = NewRequest { change: known.change, ..new };
            Ok(RequestTurn::Run(attempt(asked, &new, data_key)))
        }
        RequestState::Running { .. } | RequestState::OutcomeUnknown => {
            Err(ApiError::Failure(Failure::OutcomeUnknown(UnknownOutcome::of_own_request())))
        }
        RequestState::NotStored => {
            Err(ApiError::Failure(Failure::AnswerNotStored(NotStored(None))))
        }
        RequestState::Stored(_) if !known.has_permissions(permissions) => {
            Err(ApiError::Failure(Failure::IdempotencyMismatch))
        }
        RequestState::Stored(answer) => {
            let place = ResponseSeal::of_request(&data_key, &new.name);
            let (status, headers, body) = idempotency::open(&place, answer)?;
            let mut response = (status, headers, body).into_response();
            idempotency::mark_replayed(response.headers_mut());
            Ok(RequestTurn::Replay(response))
        }
    }
}

/// The data key of an earlier request, if that is no longer the current one.
async fn data_key_of(web: &WebState, id: DataKeyId) -> Result<DataKey, ApiError> {
    web.vault.find(id).await.map_err(|error| match error {
        runtime::VaultError::NoDataKey => ApiError::Failure(Failure::Internal(format!(
            "the data key {id} of a stored response cannot be opened"
        ))),
        other => ApiError::from(other),
    })
}
