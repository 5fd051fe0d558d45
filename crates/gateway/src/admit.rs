//! Phase 1, admit: who calls which account, by which route, and whether a local check refuses the
//! call.
//!
//! These checks cost no credits and send nothing.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{MatchedRoute, Route};
use domain::account::CreatorId;
use domain::call_tag::CallTag;
use domain::credits::Credits;
use domain::key::KeyScope;
use domain::method::Method;
use domain::request_key::RequestKey;
use domain::time::Timestamp;
use failures::Failure;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri};
use platform_client::path::{self, PathProblem};
use settings::http::UnlistedRoutes;
use web::auth;
use web::error::ApiError;
use web::extract;
use web::fields;
use web::metered_headers;
use web::middleware::body::BufferedRequestBody;

use super::account_entry::AccountEntry;
use super::cache::{self, KeyEntry};
use super::encoded_path;
use super::limits::PassedLimits;
use super::routes::KnownRoute;
use super::upload::{self, Upload};
use crate::state::GatewayState;

/// The route of the data plane that a call came by.
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

/// A parsed request head: which key asks for which account.
pub(super) struct RequestHead {
    pub(super) key: Arc<KeyEntry>,
    pub(super) creator: CreatorId,
    pub(super) method: Method,
    pub(super) parts: Parts,
    /// Where the native path begins in the request's path.
    path_at: usize,
    pub(super) idempotency: Option<RequestKey>,
    /// What the call is for, in the customer's words.
    pub(super) tag: Option<CallTag>,
}

/// What the head of a request says, without the head itself.
pub(super) struct IdentifiedCall {
    key: Arc<KeyEntry>,
    creator: CreatorId,
    method: Method,
    path_at: usize,
    idempotency: Option<RequestKey>,
    tag: Option<CallTag>,
}

/// A request with its body read. It is tried again when its account changes in between.
pub(super) struct Whole {
    pub(super) arrival: RequestHead,
    pub(super) content: Content,
    /// The limits, if they were checked before the content was read.
    pub(super) passed: Option<PassedLimits>,
}

/// The content of a request.
pub(super) enum Content {
    /// A native body, in memory.
    Native(BufferedRequestBody),
    /// A form with a file, on disk.
    Upload(Upload),
}

/// How the call will be made, if its credits can be held.
pub(super) struct CallPlan {
    pub(super) route: Arc<KnownRoute>,
    pub(super) shorthand: Option<catalog::Shorthand>,
    pub(super) default_query: Vec<(String, String)>,
    pub(super) cost: Credits,
}

impl RequestHead {
    /// Combines the parsed values with the head they came from.
    pub(super) fn new(identified: IdentifiedCall, parts: Parts) -> Self {
        let IdentifiedCall { key, creator, method, path_at, idempotency, tag } = identified;
        Self { key, creator, method, parts, path_at, idempotency, tag }
    }

    /// The native path as the caller sent it; for an upload, the part after the account.
    pub(super) fn native_path(&self) -> &str {
        self.parts.uri.path().get(self.path_at..).unwrap_or_default()
    }

    /// Writes the slashes of the native path where they were percent-encoded as a whole.
    pub(super) fn decode_slashes(&mut self, gateway: &GatewayState, account: &AccountEntry) {
        let catalog = gateway.catalog.platform(account.platform);
        if let Some(meant) = encoded_path::meant(catalog, self.method, self.native_path()) {
            self.replace_path(&meant);
        }
    }

    /// Replaces the native path. What it is replaced by has passed the checks of paths, so that it
    /// forms a URI.
    fn replace_path(&mut self, native: &str) {
        let uri = &self.parts.uri;
        let before = uri.path().get(..self.path_at).unwrap_or_default();
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let mut replaced = uri.clone().into_parts();
        replaced.path_and_query = format!("{before}{native}{query}").parse().ok();
        if let Ok(meant) = Uri::from_parts(replaced) {
            self.parts.uri = meant;
        }
    }

    /// Whether this is the platform's upload, by either of our routes.
    pub(super) fn is_upload(&self, gateway: &GatewayState, account: &AccountEntry) -> bool {
        !self.method.is_read()
            && gateway.catalog.platform(account.platform).is_upload(self.method, self.native_path())
    }

    /// The query as the caller sent it; empty when there is none.
    pub(super) fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }
}

/// Reads the head: method, path, key, scope. The key is looked up only if its form is valid.
/// `caller` is set as soon as the key is known, even if the request is then refused.
pub(super) async fn identify(
    gateway: &GatewayState,
    entrance: CallEntrance,
    parts: &Parts,
    now: Timestamp,
    caller: &mut Option<Arc<KeyEntry>>,
) -> Result<IdentifiedCall, ApiError> {
    let method: Method = parts.method.as_str().parse().map_err(|_| ApiError::NativeMethod)?;
    let (named, path_at) = split_path(entrance, parts.uri.path())?;
    path::check_path(parts.uri.path().get(path_at..).unwrap_or_default())
        .map_err(|problem| ApiError::InvalidPath(problem.to_string()))?;
    check_query(entrance, parts.uri.query().unwrap_or_default())?;
    let hash = auth::key_hash(parts)?;
    let mut key = cache::key(gateway, hash, now).await?;
    *caller = Some(Arc::clone(&key));
    auth::refuse_other_session(&gateway.web, parts, key.customer).await?;
    let mut allowed = check_key(&key, method, named);
    if allowed.is_err() {
        // The cached key may be older than a change that allows this call.
        key = cache::read_key(gateway, hash).await?;
        allowed = check_key(&key, method, named);
    }
    let creator = allowed?;
    check_range(&parts.headers)?;
    let idempotency =
        if method.is_read() { None } else { web::idempotency_key::read(&parts.headers)? };
    metered_headers::check_cost(&parts.headers, gateway.config.credits.costs().of(method))?;
    let tag = metered_headers::tag(&parts.headers)?;
    if let Some(tag) = &tag {
        gateway.web.daily_tags.admit(key.customer, tag, now)?;
    }
    Ok(IdentifiedCall { key, creator, method, path_at, idempotency, tag })
}

/// Reads the key of a call again after its permissions have changed.
pub(super) async fn identify_again(
    gateway: &GatewayState,
    whole: &mut Whole,
) -> Result<(), ApiError> {
    let arrival = &mut whole.arrival;
    arrival.key = cache::read_key(gateway, arrival.key.hash).await?;
    check_key(&arrival.key, arrival.method, arrival.creator.as_str())?;
    Ok(())
}

/// Checks that the key may make this call; returns the account that the path names.
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

/// Several ranges multiply what a platform reads and sends for one call, so we forward at most one.
fn check_range(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut ranges = headers.get_all(http::header::RANGE).iter();
    let is_a_list = |range: &HeaderValue| range.as_bytes().contains(&b',');
    if ranges.next().is_some_and(is_a_list) || ranges.next().is_some() {
        return Err(ApiError::SeveralRanges);
    }
    Ok(())
}

/// Splits the path into the account and the native path, and returns the offset where the latter
/// begins.
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

/// An upload takes its fields from the form only; a field in the query would be ignored silently.
pub(super) fn check_query(entrance: CallEntrance, query: &str) -> Result<(), ApiError> {
    match entrance {
        CallEntrance::Native => {
            path::check_query(query).map_err(|problem| ApiError::InvalidPath(problem.to_string()))
        }
        CallEntrance::Upload => fields::refuse_query(Some(query)),
    }
}

/// Matches the route and runs the local checks.
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
        if gateway.config.unlisted_routes(platform) == UnlistedRoutes::Refuse {
            return Err(ApiError::Failure(Failure::RouteNotListed(platform)));
        }
        return Ok(CallPlan {
            route: gateway.unlisted.route(
                arrival.key.customer,
                arrival.method,
                arrival.native_path(),
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

/// An encoded slash must be part of a name in the route; elsewhere it is refused, because platforms
/// disagree about its meaning.
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

/// Checks a JSON body only where the route has rules for it. A body that is not JSON is forwarded
/// as it is.
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
    fn account_and_native_path_come_from_the_raw_path() {
        let path = "/v1/ada/native/chats/7/messages/";

        let (account, at) = split_path(CallEntrance::Native, path).unwrap();

        assert_eq!((account, &path[at..]), ("ada", "chats/7/messages/"));
        assert!(split_path(CallEntrance::Native, "/v1/ada/exports").is_err());
    }

    #[test]
    fn path_of_an_upload_starts_after_the_account() {
        let path = "/v1/ada/media/upload";

        let (account, at) = split_path(CallEntrance::Upload, path).unwrap();

        assert_eq!((account, &path[at..]), ("ada", "media/upload"));
    }
}
