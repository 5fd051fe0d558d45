//! Phase 1, admit: who calls which account, by which route, and whether anything local speaks against it.
//!
//! Everything here costs nothing and sends nothing.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{MatchedRoute, Route};
use clients::platform::path::{self, PathProblem};
use domain::account::CreatorId;
use domain::credits::Credits;
use domain::key::KeyScope;
use domain::method::Method;
use domain::request_key::RequestKey;
use domain::time::Timestamp;
use failures::Failure;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use settings::http::UnlistedRoutes;
use web::auth;
use web::error::ApiError;
use web::extract;
use web::fields;
use web::middleware::body::BufferedRequestBody;

use super::account_entry::AccountEntry;
use super::cache::{self, KeyEntry};
use super::limits::PassedLimits;
use super::routes::KnownRoute;
use super::upload::{self, Upload};
use crate::state::GatewayState;

/// By which route of the data plane a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEntrance {
    /// `/v1/{account}/native/{path}`
    Native,
    /// `/v1/{account}/media/upload`
    Upload,
}

impl CallEntrance {
    /// The template of the route.
    pub(super) const fn route(self) -> &'static str {
        let [native, upload] = auth::KEY_PATHS;
        match self {
            Self::Native => native,
            Self::Upload => upload,
        }
    }
}

/// A request whose head was understood: who asks for which account.
pub(super) struct RequestHead {
    pub(super) key: Arc<KeyEntry>,
    pub(super) creator: CreatorId,
    pub(super) method: Method,
    pub(super) parts: Parts,
    /// Where the native path begins in the request's path.
    path_at: usize,
    pub(super) idempotency: Option<RequestKey>,
}

/// What the head of a request says, without the head.
pub(super) struct IdentifiedCall {
    key: Arc<KeyEntry>,
    creator: CreatorId,
    method: Method,
    path_at: usize,
    idempotency: Option<RequestKey>,
}

/// A request with its body read, as often tried as its account changes under it.
pub(super) struct Whole {
    pub(super) arrival: RequestHead,
    pub(super) content: Content,
    /// The limits, where they were passed before the content was read.
    pub(super) passed: Option<PassedLimits>,
}

/// What a request carries.
pub(super) enum Content {
    /// A native body, in memory.
    Native(BufferedRequestBody),
    /// A form with a file, on disk.
    Upload(Upload),
}

/// What the call will be, if its credits can be held.
pub(super) struct CallPlan {
    pub(super) route: Arc<KnownRoute>,
    pub(super) shorthand: Option<catalog::Shorthand>,
    pub(super) default_query: Vec<(String, String)>,
    pub(super) cost: Credits,
}

impl RequestHead {
    /// Of a head that was understood.
    pub(super) fn new(identified: IdentifiedCall, parts: Parts) -> Self {
        let IdentifiedCall { key, creator, method, path_at, idempotency } = identified;
        Self { key, creator, method, parts, path_at, idempotency }
    }

    /// The native path as the caller sent it; of an upload, what follows the account.
    pub(super) fn native_path(&self) -> &str {
        self.parts.uri.path().get(self.path_at..).unwrap_or_default()
    }

    /// Whether it is the platform's upload, by whichever of our routes.
    pub(super) fn is_upload(&self, gateway: &GatewayState, account: &AccountEntry) -> bool {
        !self.method.is_read()
            && gateway.catalog.platform(account.platform).is_upload(self.method, self.native_path())
    }

    /// The query as the caller sent it; empty when there is none.
    pub(super) fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }
}

/// Reads the head: method, path, key, scope. Nothing is looked up before the key's form is right. `caller` is the key once
/// it is known, also if the request is refused afterwards.
pub(super) async fn identify(
    gateway: &GatewayState,
    entrance: CallEntrance,
    parts: &Parts,
    (now, caller): (Timestamp, &mut Option<Arc<KeyEntry>>),
) -> Result<IdentifiedCall, ApiError> {
    let method: Method = parts.method.as_str().parse().map_err(|_| ApiError::NativeMethod)?;
    let (named, path_at) = split_path(entrance, parts.uri.path())?;
    path::check_path(parts.uri.path().get(path_at..).unwrap_or_default())
        .map_err(|problem| ApiError::InvalidPath(problem.to_string()))?;
    check_query(entrance, parts.uri.query().unwrap_or_default())?;
    let secret = auth::presented_key(&parts.headers)?;
    let mut key = cache::key(gateway, secret.hash(), now).await?;
    *caller = Some(Arc::clone(&key));
    auth::refuse_other_session(&gateway.web, parts, key.customer).await?;
    let mut allowed = check_key(&key, method, named);
    if allowed.is_err() {
        // What is remembered may be older than a change that allows it.
        key = cache::read_key(gateway, secret.hash()).await?;
        allowed = check_key(&key, method, named);
    }
    let creator = allowed?;
    check_range(&parts.headers)?;
    let idempotency =
        if method.is_read() { None } else { web::idempotency_key::read(&parts.headers)? };
    Ok(IdentifiedCall { key, creator, method, path_at, idempotency })
}

/// Reads the key of a call once more, after what it may do has changed.
pub(super) async fn identify_again(
    gateway: &GatewayState,
    whole: &mut Whole,
) -> Result<(), ApiError> {
    let arrival = &mut whole.arrival;
    arrival.key = cache::read_key(gateway, arrival.key.hash).await?;
    check_key(&arrival.key, arrival.method, arrival.creator.as_str())?;
    Ok(())
}

/// Whether the key may make this call; gives the account that it names.
fn check_key(key: &KeyEntry, method: Method, creator: &str) -> Result<CreatorId, ApiError> {
    if !method.is_read() && key.scope != KeyScope::Full {
        return Err(ApiError::Failure(Failure::ReadOnlyKey));
    }
    let creator: CreatorId =
        creator.parse().map_err(|_| ApiError::Failure(Failure::AccountNotFound))?;
    if key.accounts.is_empty() || key.accounts.contains(&creator) {
        return Ok(creator);
    }
    Err(ApiError::Failure(Failure::AccountNotFound))
}

/// Several ranges multiply what a platform reads and sends for one call, so at most one is passed on.
fn check_range(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut ranges = headers.get_all(http::header::RANGE).iter();
    let is_a_list = |range: &HeaderValue| range.as_bytes().contains(&b',');
    if ranges.next().is_some_and(is_a_list) || ranges.next().is_some() {
        return Err(ApiError::SeveralRanges);
    }
    Ok(())
}

/// Splits the path into the account and what the platform is called with, which begins at the given place.
fn split_path(entrance: CallEntrance, path: &str) -> Result<(&str, usize), ApiError> {
    const NOTHING: ApiError = ApiError::Failure(Failure::NotFound("nothing is at this path"));
    let rest = path.strip_prefix("/v1/").ok_or(NOTHING)?;
    let (account, rest) = rest.split_once('/').ok_or(NOTHING)?;
    let native = match entrance {
        CallEntrance::Native => rest.strip_prefix("native/"),
        CallEntrance::Upload => Some(rest),
    };
    let native = native.ok_or(NOTHING)?;
    Ok((account, path.len() - native.len()))
}

/// An upload has its fields in its form alone: one that stands in the query would be lost without a word.
pub(super) fn check_query(entrance: CallEntrance, query: &str) -> Result<(), ApiError> {
    match entrance {
        CallEntrance::Native => {
            path::check_query(query).map_err(|problem| ApiError::InvalidPath(problem.to_string()))
        }
        CallEntrance::Upload => fields::refuse_query(Some(query)),
    }
}

/// Matches the route and makes the local checks.
pub(super) fn plan(
    gateway: &GatewayState,
    whole: &Whole,
    account: &AccountEntry,
) -> Result<CallPlan, ApiError> {
    account.check_in_use()?;
    let arrival = &whole.arrival;
    let platform = account.platform;
    let cost = gateway.config.credits.costs().of(arrival.method);
    let route = match &whole.content {
        Content::Upload(_) => Some(upload::route(gateway, account)?),
        Content::Native(_) => {
            let path = arrival.native_path();
            let found = gateway.catalog.platform(platform).find(arrival.method, path);
            check_slashes(path, found.as_ref())?;
            found.map(|MatchedRoute { route, .. }| route)
        }
    };
    let Some(route) = route else {
        if gateway.config.http.unlisted_routes == UnlistedRoutes::Refuse {
            return Err(ApiError::Failure(Failure::RouteNotListed(platform)));
        }
        return Ok(CallPlan {
            route: gateway.unlisted.route(
                arrival.key.customer,
                (arrival.method, arrival.native_path()),
                gateway.clock.now(),
            ),
            shorthand: None,
            default_query: Vec::new(),
            cost,
        });
    };
    check_scopes(route, account)?;
    if let Content::Native(body) = &whole.content {
        check_body(route, arrival, &body.bytes)?;
    }
    Ok(CallPlan {
        route: gateway.known_route(platform, route),
        shorthand: route.shorthand().cloned(),
        default_query: route.default_query.clone(),
        cost,
    })
}

/// An encoded slash belongs to a name that the route takes, or is refused: platforms disagree about what it means.
fn check_slashes(path: &str, found: Option<&MatchedRoute<'_>>) -> Result<(), ApiError> {
    let slashes = path::encoded_slashes(path);
    if slashes == 0 {
        return Ok(());
    }
    let in_names = found.map_or(0, |found| found.free_text().map(path::encoded_slashes).sum());
    if slashes == in_names {
        return Ok(());
    }
    Err(ApiError::InvalidPath(PathProblem::EncodedSlash.to_string()))
}

fn check_scopes(route: &Route, account: &AccountEntry) -> Result<(), ApiError> {
    let Some(granted) = &account.scopes else { return Ok(()) };
    let granted: Vec<&str> = granted.iter().map(String::as_str).collect();
    let missing = route.missing_scopes(&granted);
    if missing.is_empty() {
        return Ok(());
    }
    Err(ApiError::Failure(Failure::MissingScope(missing.into_iter().map(str::to_owned).collect())))
}

/// Looks at a JSON body only where the route has rules for it. A body that is not JSON goes to the platform.
fn check_body(route: &Route, arrival: &RequestHead, body: &Bytes) -> Result<(), ApiError> {
    if !route.has_body_rules() || !extract::is_json(&arrival.parts.headers) {
        return Ok(());
    }
    match serde_json::from_slice(body) {
        Ok(value) => route
            .check_body(&value)
            .map_err(|problem| ApiError::Failure(Failure::Invalid(vec![problem.into()]))),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_and_the_native_path_are_taken_from_the_raw_path() {
        let path = "/v1/ada/native/chats/7/messages/";

        let (account, at) = split_path(CallEntrance::Native, path).unwrap();

        assert_eq!((account, &path[at..]), ("ada", "chats/7/messages/"));
        assert!(split_path(CallEntrance::Native, "/v1/ada/exports").is_err());
    }

    #[test]
    fn of_an_upload_the_path_is_what_follows_the_account() {
        let path = "/v1/ada/media/upload";

        let (account, at) = split_path(CallEntrance::Upload, path).unwrap();

        assert_eq!((account, &path[at..]), ("ada", "media/upload"));
    }
}
