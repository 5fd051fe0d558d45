//! A read of our own: a GET that an export makes with the credentials of a connected account.
//!
//! It goes the way of a native call (fresh token, pauses, breaker, the account's places, signature, envelope) and
//! teaches the same lessons, but nothing is held and nothing is charged: whoever asks has paid before.

use std::sync::Arc;

use bytes::Bytes;
use clients::platform::{
    Answer, AnswerBody, ClientError, NativeCall, ReadLimits, ReadUpTo, RequestBody, SigningInput,
    Target, envelope,
};
use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::method::Method;
use failures::Failure;
use http::{HeaderMap, StatusCode};
use web::error::ApiError;

use super::accounts::AccountEntry;
use super::{cache, limits, receive, reconnect, refresh};
use crate::app::App;

/// So long a read waits for a place among the account's calls before it asks again, in milliseconds.
const PLACE_WAIT_MS: i64 = 100;

/// A GET of a platform.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnRead<'a> {
    /// What stands for the id of a call, in headers that want one.
    pub(crate) label: &'a str,
    /// The native path, percent-encoded.
    pub(crate) path: &'a str,
    /// The raw query.
    pub(crate) query: &'a str,
    /// The longest answer that is taken, decoded.
    pub(crate) bytes_max: usize,
}

/// What the platform answered.
#[derive(Debug)]
pub(crate) struct ReadAnswer {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Its body, decoded and without the platform's envelope.
    pub(crate) body: Bytes,
    /// Whether an envelope was expected and none that says success was there.
    pub(crate) is_unwrapped: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// Nothing was sent: the platform asked for a pause, or others are ahead. Ask again after this time.
    Wait {
        /// How long, in milliseconds.
        for_ms: i64,
    },
    /// The platform could not be reached, was too late, or answered unusably.
    Failed(ClientError),
    /// The answer is longer than asked for.
    TooLarge,
    /// The account cannot be used.
    Account(ApiError),
}

/// The account as it is now, if it may be used.
pub(crate) async fn account(
    app: &App,
    customer: CustomerId,
    creator: &CreatorId,
) -> Result<Arc<AccountEntry>, ApiError> {
    let account = cache::account(app, customer, creator, app.clock.now()).await?;
    account.check_in_use()?;
    Ok(account)
}

/// Sends one read and takes its whole answer; once more where the platform refuses a token that can be replaced.
pub(crate) async fn get(
    app: &App,
    (customer, creator): (CustomerId, &CreatorId),
    read: &OwnRead<'_>,
) -> Result<ReadAnswer, ReadFailure> {
    let account = account(app, customer, creator).await.map_err(ReadFailure::Account)?;
    let target = app.target(account.platform).map_err(ReadFailure::Account)?;
    let account = refresh::with_fresh_token(app, target, account, app.clock.now())
        .await
        .map_err(ReadFailure::Account)?;
    limits::check_health(&account, app.clock.now()).map_err(waiting)?;
    let load = app.in_flight.of_customer(customer);
    let busy = |_| ReadFailure::Wait { for_ms: PLACE_WAIT_MS };
    let _permit = app.in_flight.take(&load, &account.load).map_err(busy)?;
    let first = exchange(app, target, &account, read).await?;
    if first.status != StatusCode::UNAUTHORIZED
        || !refresh::may_replace_token(app, target, &account)
    {
        return first.taken(app, &account);
    }
    match Box::pin(refresh::after_refusal(app, target, &account)).await {
        None => first.taken(app, &account),
        Some(fresh) => exchange(app, target, &fresh, read).await?.taken(app, &fresh),
    }
}

/// A pause or an open breaker says how long; anything else is about the account.
fn waiting(error: ApiError) -> ReadFailure {
    match error {
        ApiError::Failure(Failure::AccountPaused { retry_after_ms })
        | ApiError::Failure(Failure::PlatformUnavailable { retry_after_ms }) => {
            ReadFailure::Wait { for_ms: retry_after_ms }
        }
        other => ReadFailure::Account(other),
    }
}

fn request(
    app: &App,
    target: &Target,
    account: &AccountEntry,
    read: &OwnRead<'_>,
) -> Result<http::Request<RequestBody>, ReadFailure> {
    let call = NativeCall {
        call_id: &read.label,
        method: Method::Get,
        path: read.path,
        query: read.query,
        caller_headers: &HeaderMap::new(),
        body: Bytes::new(),
        account: account.headers(target).map_err(ReadFailure::Account)?,
        signing: SigningInput { now: app.clock.now(), nonce: app.random.bytes() },
    };
    target.request(&call).map_err(ReadFailure::Failed)
}

/// An answer that came. Its body may be too long.
struct Exchanged {
    status: StatusCode,
    headers: HeaderMap,
    body: Result<(Bytes, bool), ReadFailure>,
}

impl Exchanged {
    /// The answer, once what it says beyond itself is noted.
    fn taken(self, app: &App, account: &Arc<AccountEntry>) -> Result<ReadAnswer, ReadFailure> {
        let Self { status, headers, body } = self;
        learn(app, account, status, &headers);
        body.map(|(body, is_unwrapped)| ReadAnswer { status, body, is_unwrapped })
    }
}

/// Sends the read once and takes its whole answer; the account's breaker hears how it went.
async fn exchange(
    app: &App,
    target: &Target,
    account: &AccountEntry,
    read: &OwnRead<'_>,
) -> Result<Exchanged, ReadFailure> {
    let request = request(app, target, account, read)?;
    let breaker = &account.health.breaker;
    match send(app, target, request, read.bytes_max).await {
        Ok(exchanged) => {
            breaker.succeeded();
            Ok(exchanged)
        }
        Err(error) => {
            breaker.failed(app.clock.now());
            Err(ReadFailure::Failed(error))
        }
    }
}

/// Sends the request and reads its answer to the end.
async fn send(
    app: &App,
    target: &Target,
    request: http::Request<RequestBody>,
    bytes_max: usize,
) -> Result<Exchanged, ClientError> {
    let Answer { status, headers, mut body } = app.upstream().send(target, request).await?;
    let body = match whole(&mut body, bytes_max).await? {
        None => Err(ReadFailure::TooLarge),
        Some(bytes) => decoded(&headers, bytes, bytes_max)?
            .ok_or(ReadFailure::TooLarge)
            .map(|bytes| unwrapped(target, &headers, bytes)),
    };
    Ok(Exchanged { status, headers, body })
}

async fn whole(body: &mut AnswerBody, bytes_max: usize) -> Result<Option<Bytes>, ClientError> {
    Ok(match body.read_up_to(ReadLimits::bytes(bytes_max)).await? {
        ReadUpTo::Whole(bytes) => Some(bytes),
        ReadUpTo::Partial(_) => None,
    })
}

/// Nothing where the decoded bytes would be too many.
fn decoded(
    headers: &HeaderMap,
    bytes: Bytes,
    bytes_max: usize,
) -> Result<Option<Bytes>, ClientError> {
    if !receive::is_gzip(headers) {
        return Ok(Some(bytes));
    }
    Ok(match envelope::decode_gzip(&bytes, bytes_max)? {
        envelope::Gzip::Decoded(plain) => Some(plain),
        envelope::Gzip::TooLarge => None,
    })
}

fn unwrapped(target: &Target, headers: &HeaderMap, bytes: Bytes) -> (Bytes, bool) {
    if !target.has_envelope() {
        return (bytes, true);
    }
    if !receive::is_json(headers) {
        return (bytes, false);
    }
    match envelope::unwrap(&bytes) {
        envelope::Envelope::Inner(inner) => (inner, true),
        envelope::Envelope::Kept => (bytes, false),
    }
}

/// What an answer says beyond itself: a pause, credentials that work or may be dead.
fn learn(app: &App, account: &Arc<AccountEntry>, status: StatusCode, headers: &HeaderMap) {
    match status {
        status if status.is_success() => reconnect::note_success(app, account, app.clock.now()),
        StatusCode::UNAUTHORIZED => reconnect::confirm_in_background(app, account),
        StatusCode::TOO_MANY_REQUESTS => limits::note_pause(app, account, headers),
        _ => {}
    }
}
