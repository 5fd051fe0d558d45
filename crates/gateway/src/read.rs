//! A read of our own: a GET that an export makes with the credentials of an account.
//!
//! It takes the path of a native call (fresh token, pauses, breaker, limits in flight, signature,
//! envelope), and its response updates the same state. But nothing is held or charged: the export
//! was charged before.

use std::sync::Arc;

use bytes::Bytes;
use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::method::Method;
use domain::platform::Platform;
use failures::Failure;
use http::{HeaderMap, StatusCode};
use platform_client::{
    AnswerBody, CallErrorKind, ClientError, NativeCall, PlatformResponse, PlatformTarget,
    ReadLimits, ReadUpTo, RequestBody, SigningInput, envelope,
};

use super::account_entry::AccountEntry;
use super::drift::{self, DriftSign};
use super::routes::KnownRoute;
use super::{cache, limits, pacing, receive, reconnect, refresh};
use crate::state::GatewayState;

/// How long a read waits, in milliseconds, before it asks again for a permit among the account's
/// calls.
const PLACE_WAIT_MS: i64 = 100;

/// A GET of a platform.
#[derive(Debug, Clone, Copy)]
pub struct OwnRead<'a> {
    /// Used in place of a call id, in headers that need one.
    pub label: &'a str,
    /// The native path, percent-encoded.
    pub path: &'a str,
    /// The raw query.
    pub query: &'a str,
    /// The longest accepted response, decoded.
    pub bytes_max: usize,
}

/// The platform's response.
#[derive(Debug)]
pub struct ReadAnswer {
    /// Its status.
    pub status: StatusCode,
    /// Its body, decoded and without the platform's envelope.
    pub body: Bytes,
    /// False if an envelope that reports success was expected and is missing.
    pub is_unwrapped: bool,
}

/// Why there is no response.
#[derive(Debug)]
pub enum ReadFailure {
    /// The platform asked for a pause, too many calls are in flight, or the token is still being
    /// refreshed. Retry after this time.
    Wait {
        /// How long, in milliseconds.
        for_ms: i64,
    },
    /// The platform could not be reached, timed out, or returned an unusable response.
    Failed(ClientError),
    /// The response is longer than `bytes_max`.
    TooLarge,
    /// The account cannot be used.
    Account(Failure),
}

/// The account as it is now, if it is in use.
pub async fn account(
    gateway: &GatewayState,
    customer: CustomerId,
    creator: &CreatorId,
) -> Result<Arc<AccountEntry>, Failure> {
    let account = cache::account(gateway, customer, creator, gateway.clock.now()).await?;
    account.check_in_use()?;
    Ok(account)
}

/// Sends one read and returns its whole response. Retried once if the platform refuses a token that
/// can be replaced.
pub async fn get(
    gateway: &GatewayState,
    customer: CustomerId,
    creator: &CreatorId,
    read: &OwnRead<'_>,
) -> Result<ReadAnswer, ReadFailure> {
    let account = account(gateway, customer, creator).await.map_err(ReadFailure::Account)?;
    let target = gateway.accounts().target(account.platform).map_err(ReadFailure::Account)?;
    let account = refresh::with_fresh_token(gateway, target, account, gateway.clock.now())
        .await
        .map_err(waiting)?;
    limits::check_health(&account, gateway.clock.now()).map_err(waiting)?;
    let route = route(gateway, account.platform, read.path);
    if account.pace.is_some() {
        // Boxed: most platforms are not paced.
        let turn = Box::pin(pacing::own_turn(gateway, &account, route.is_sensitive())).await;
        turn.map_err(|for_ms| ReadFailure::Wait { for_ms })?;
        limits::check_health(&account, gateway.clock.now()).map_err(waiting)?;
    }
    let load = gateway.in_flight.of_customer(customer);
    let busy = |_| ReadFailure::Wait { for_ms: PLACE_WAIT_MS };
    let _permit = gateway.in_flight.take(&load, &account.load).map_err(busy)?;
    let first = exchange(gateway, target, &account, read).await?;
    if first.status != StatusCode::UNAUTHORIZED
        || !refresh::may_replace_token(gateway, target, &account)
    {
        return first.taken(gateway, &account, &route);
    }
    match Box::pin(refresh::after_refusal(gateway, &account)).await.map_err(waiting)? {
        None => first.taken(gateway, &account, &route),
        Some(fresh) => {
            if let Some(pace) = &fresh.pace
                && let Some(class) = pace.rule().class_of(true, route.is_sensitive())
            {
                pace.charge(class, gateway.clock.now());
            }
            exchange(gateway, target, &fresh, read).await?.taken(gateway, &fresh, &route)
        }
    }
}

/// The route that a read counts for.
fn route(gateway: &GatewayState, platform: Platform, path: &str) -> Arc<KnownRoute> {
    let found = gateway.catalog.platform(platform).find(Method::Get, path);
    found.map_or_else(
        || gateway.unlisted.other(),
        |found| gateway.known_route(platform, found.route),
    )
}

/// A pause or an open breaker says how long to wait; any other failure concerns the account.
fn waiting(error: Failure) -> ReadFailure {
    match error {
        Failure::AccountPaused { retry_after_ms }
        | Failure::PlatformUnavailable { retry_after_ms } => {
            ReadFailure::Wait { for_ms: retry_after_ms }
        }
        Failure::TokenBeingRefreshed => ReadFailure::Wait { for_ms: PLACE_WAIT_MS },
        other => ReadFailure::Account(other),
    }
}

fn request(
    gateway: &GatewayState,
    target: &PlatformTarget,
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
        signing: SigningInput { now: gateway.clock.now(), nonce: gateway.random.bytes() },
    };
    target.request(&call).map_err(ReadFailure::Failed)
}

/// A response that arrived. Its body may be too long.
struct ExchangedAnswer {
    status: StatusCode,
    headers: HeaderMap,
    body: Result<(Bytes, bool), ReadFailure>,
}

impl ExchangedAnswer {
    /// The response, after its side effects are recorded.
    fn taken(
        self,
        gateway: &GatewayState,
        account: &Arc<AccountEntry>,
        route: &KnownRoute,
    ) -> Result<ReadAnswer, ReadFailure> {
        let Self { status, headers, body } = self;
        let lacks_envelope = matches!(body, Ok((_, false)));
        let sign = DriftSign { status, lacks_envelope };
        drift::note(gateway, account, route.drift(), sign);
        learn(gateway, account, status, &headers);
        body.map(|(body, is_unwrapped)| ReadAnswer { status, body, is_unwrapped })
    }
}

/// Sends the read once, reads its whole response, and reports the result to the account's breaker.
async fn exchange(
    gateway: &GatewayState,
    target: &PlatformTarget,
    account: &AccountEntry,
    read: &OwnRead<'_>,
) -> Result<ExchangedAnswer, ReadFailure> {
    let request = request(gateway, target, account, read)?;
    let breaker = &account.health.breaker;
    match send(gateway, target, request, read.bytes_max).await {
        Ok(exchanged) => {
            breaker.succeeded();
            Ok(exchanged)
        }
        Err(error) => {
            // The platform was not asked.
            if !matches!(error.kind, CallErrorKind::Signing(_)) {
                breaker.failed(gateway.clock.now());
            }
            Err(ReadFailure::Failed(error))
        }
    }
}

/// Sends the request and reads its response to the end.
async fn send(
    gateway: &GatewayState,
    target: &PlatformTarget,
    request: http::Request<RequestBody>,
    bytes_max: usize,
) -> Result<ExchangedAnswer, ClientError> {
    let PlatformResponse { status, headers, mut body } =
        gateway.accounts().upstream.send(target, request).await?;
    let body = match whole(&mut body, bytes_max).await? {
        None => Err(ReadFailure::TooLarge),
        Some(bytes) => decoded(&headers, bytes, bytes_max)?
            .ok_or(ReadFailure::TooLarge)
            .map(|bytes| unwrapped(target, &headers, bytes)),
    };
    Ok(ExchangedAnswer { status, headers, body })
}

async fn whole(body: &mut AnswerBody, bytes_max: usize) -> Result<Option<Bytes>, ClientError> {
    Ok(match body.read_up_to(ReadLimits::bytes(bytes_max)).await? {
        ReadUpTo::Whole(bytes) => Some(bytes),
        ReadUpTo::Partial(_) => None,
    })
}

/// `None` if the decoded body would be too long.
fn decoded(
    headers: &HeaderMap,
    bytes: Bytes,
    bytes_max: usize,
) -> Result<Option<Bytes>, ClientError> {
    if !receive::is_gzip(headers) {
        return Ok(Some(bytes));
    }
    Ok(match envelope::decode_gzip(&bytes, bytes_max)? {
        envelope::DecodedBody::Decoded(plain) => Some(plain),
        envelope::DecodedBody::TooLarge => None,
    })
}

fn unwrapped(target: &PlatformTarget, headers: &HeaderMap, bytes: Bytes) -> (Bytes, bool) {
    if !target.has_envelope() {
        return (bytes, true);
    }
    if !receive::is_json(headers) {
        return (bytes, false);
    }
    match target.unwrap(&bytes) {
        envelope::EnvelopeContent::Inner(inner) => (inner, true),
        envelope::EnvelopeContent::Kept => (bytes, false),
    }
}

/// Acts on what a response says beyond its content: a pause, credentials that work or may be dead.
fn learn(
    gateway: &GatewayState,
    account: &Arc<AccountEntry>,
    status: StatusCode,
    headers: &HeaderMap,
) {
    match status {
        status if status.is_success() => {
            reconnect::note_success(gateway, account, gateway.clock.now());
        }
        StatusCode::UNAUTHORIZED => reconnect::confirm_in_background(gateway, account),
        StatusCode::TOO_MANY_REQUESTS => limits::note_pause(gateway, account, headers),
        _ => {}
    }
}
