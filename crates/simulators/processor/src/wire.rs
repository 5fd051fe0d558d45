//! A request from its headers to its response: authentication, version, idempotency.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::ProcessorSimulator;
use super::api_call::{ApiCall, ApiCaller};
use super::fields::{set, text, whole};
use super::form::FormParams;
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::routes::{self, FoundRoute};
use super::switches::{FaultSwitch, SwitchCandidate};
use super::{events, render, versions, webhook_endpoints};

/// How long the response for an idempotency key is stored, in seconds.
const KEY_S: i64 = 24 * 3600;
const KEY_LENGTH_MAX: usize = 255;

/// A request below `/v1/`.
pub(crate) struct ApiRequest<'a> {
    pub(crate) method: &'a Method,
    /// Without the leading `/v1/`.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    /// The base URL that the caller used.
    pub(crate) base: String,
}

/// A response, or none.
pub(crate) enum ApiAnswer {
    Given {
        status: u16,
        body: Value,
        headers: Vec<(&'static str, String)>,
    },
    /// The connection stays silent.
    Silence,
    /// The connection is closed.
    Closed,
}

/// Idempotency keys and objects in use. Dropping a claim releases its key or object.
#[derive(Clone, Debug, Default)]
pub(super) struct KeysInUse(Arc<Mutex<HashSet<String>>>);

struct KeyClaim<'a> {
    busy: &'a KeysInUse,
    what: String,
}

impl KeysInUse {
    fn claim(&self, what: String) -> Option<KeyClaim<'_>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A claim must not be created if it is not granted: dropping it would release the other
        // one.
        if all.insert(what.clone()) { Some(KeyClaim { busy: self, what }) } else { None }
    }
}

impl Drop for KeyClaim<'_> {
    fn drop(&mut self) {
        self.busy.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.what);
    }
}

/// A request with its authenticated sender and its route.
struct KnownRequest<'a> {
    request: &'a ApiRequest<'a>,
    request_id: String,
    caller: ApiCaller,
    version: String,
    route: FoundRoute,
    ids: Vec<String>,
    params: FormParams,
    key: Option<String>,
}

/// Responds to a request.
pub(crate) async fn answer(processor: &ProcessorSimulator, request: &ApiRequest<'_>) -> ApiAnswer {
    let request_id = processor.locked().new_id("req");
    let known = match understand(processor, request, request_id.clone()) {
        Ok(known) => known,
        Err(problem) => {
            processor.noted(request, None, problem.status);
            return refused(&problem, &request_id, |_| None);
        }
    };
    let given = keyed(processor, &known).await;
    let status = if let ApiAnswer::Given { status, .. } = &given { Some(*status) } else { None };
    processor.noted(request, Some(&known.params), status.unwrap_or(0));
    with_headers(given, &known)
}

fn understand<'a>(
    processor: &ProcessorSimulator,
    request: &'a ApiRequest<'a>,
    request_id: String,
) -> Result<KnownRequest<'a>, ApiError> {
    let method = request.method.as_str();
    let form = if request.method == Method::POST {
        std::str::from_utf8(request.body).unwrap_or_default()
    } else {
        request.query
    };
    let params = FormParams::parse(form);
    let caller = who(processor, request, &params)?;
    let version = header(request, "stripe-version").map_or(events::VERSION, |version| version);
    if !versions::KNOWN.contains(&version) {
        return Err(ApiError::invalid(format!("Invalid Stripe API version: {version}.")));
    }
    let Some((route, ids)) = routes::find(method, request.path) else {
        let message = format!(
            "Unrecognized request URL ({method}: /v1/{}). If you are trying to list objects, remove the trailing slash. If you are trying to retrieve an object, make sure you passed a valid (non-empty) identifier in your code. Please see https://stripe.com/docs or we can help at https://support.stripe.com/.",
            request.path
        );
        return Err(ApiError::invalid(message).status(404));
    };
    let content = header(request, "content-type").unwrap_or_default();
    if request.method == Method::POST && !content.starts_with("application/x-www-form-urlencoded") {
        let message = "Invalid request (check that your POST content type is application/x-www-form-urlencoded). If you have any questions, we can help at https://support.stripe.com/.";
        return Err(ApiError::invalid(message));
    }
    // A browser reads and confirms; what is to be paid is changed only by the server.
    let open = [
        ("GET", "payment_intents/{}"),
        ("POST", "payment_intents/{}/confirm"),
        ("GET", "setup_intents/{}"),
    ];
    let allowed = caller == ApiCaller::Server || open.contains(&(method, route.path()));
    if !allowed {
        let message = "This API call cannot be made with a publishable API key. Please use a secret API key. You can find a list of your API keys at https://dashboard.stripe.com/account/apikeys.";
        return Err(ApiError::invalid(message).code("secret_key_required").status(403));
    }
    route.check(&params)?;
    let key = header(request, "idempotency-key")
        .filter(|_| request.method == Method::POST)
        .map(str::to_owned);
    if key.as_ref().is_some_and(|key| key.len() > KEY_LENGTH_MAX || key.is_empty()) {
        let message =
            format!("Idempotency keys must be between 1 and {KEY_LENGTH_MAX} characters long.");
        return Err(ApiError { kind: "idempotency_error", ..ApiError::invalid(message) });
    }
    Ok(KnownRequest {
        request,
        request_id,
        caller,
        version: version.to_owned(),
        route,
        ids,
        params,
        key,
    })
}

fn header<'a>(request: &'a ApiRequest<'_>, name: &str) -> Option<&'a str> {
    request.headers.get(name)?.to_str().ok()
}

/// The caller: the secret key belongs to the server, the publishable one to browsers.
fn who(
    processor: &ProcessorSimulator,
    request: &ApiRequest<'_>,
    params: &FormParams,
) -> Result<ApiCaller, ApiError> {
    let given = header(request, "authorization").unwrap_or_default();
    let (scheme, value) = given.split_once(' ').unwrap_or((given, ""));
    let key = if scheme.eq_ignore_ascii_case("bearer") {
        value.trim().to_owned()
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded =
            base64::engine::general_purpose::STANDARD.decode(value.trim()).unwrap_or_default();
        String::from_utf8_lossy(&decoded).split(':').next().unwrap_or_default().to_owned()
    } else {
        params.text("key").unwrap_or_default().to_owned()
    };
    if key.is_empty() {
        let message = "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY'). See https://stripe.com/docs/api#authentication for details, or we can help at https://support.stripe.com/.";
        return Err(ApiError::invalid(message).status(401));
    }
    if key == processor.secret_key {
        Ok(ApiCaller::Server)
    } else if key == processor.publishable_key {
        Ok(ApiCaller::Browser)
    } else {
        let end: String = key.chars().rev().take(4).collect::<Vec<_>>().into_iter().rev().collect();
        let start: String = key.chars().take(8).collect();
        Err(ApiError::invalid(format!("Invalid API Key provided: {start}****{end}")).status(401))
    }
}

/// Returns the stored response for a used key; otherwise carries out the request under the key.
async fn keyed(processor: &ProcessorSimulator, known: &KnownRequest<'_>) -> ApiAnswer {
    let Some(key) = &known.key else { return faulty(processor, known).await };
    let fingerprint =
        format!("{} {} {}", known.request.method, known.request.path, known.params.fingerprint());
    let id = format!("idempotency_{key}");
    let Some(_claim) = processor.busy.claim(format!("key {key}")) else {
        let message = "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through): ".to_owned() + key;
        let problem = ApiError::invalid(message).code("idempotency_key_in_use").status(409);
        return refused(
            &ApiError { kind: "idempotency_error", ..problem },
            &known.request_id,
            |_| None,
        );
    };
    let stored = processor.locked().get(&id).cloned();
    if let Some(stored) = stored.filter(|stored| whole(stored, "expires_at") > processor.now_s()) {
        return again(&stored, &fingerprint, known);
    }
    faulty(processor, known).await
}

fn again(stored: &Value, fingerprint: &str, known: &KnownRequest<'_>) -> ApiAnswer {
    if text(stored, "fingerprint") != fingerprint {
        let message = "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '".to_owned()
            + known.key.as_deref().unwrap_or_default()
            + "' if you meant to execute a different request.";
        let problem = ApiError { kind: "idempotency_error", ..ApiError::invalid(message) };
        return refused(&problem, &known.request_id, |_| None);
    }
    let status = u16::try_from(whole(stored, "status")).unwrap_or(500);
    let body = stored.get("body").cloned().unwrap_or_default();
    let first = text(stored, "request_id").to_owned();
    let headers = vec![("idempotent-replayed", "true".to_owned()), ("original-request", first)];
    ApiAnswer::Given { status, body, headers }
}

/// Carries out the request, unless there are too many or a switch applies to it.
async fn faulty(processor: &ProcessorSimulator, known: &KnownRequest<'_>) -> ApiAnswer {
    if processor.is_busy() {
        return rate_limited(known, None);
    }
    let asked = SwitchCandidate {
        method: known.request.method.as_str(),
        path: known.request.path,
        template: known.route.path(),
    };
    let switch = processor.switches.choose(&asked);
    // Two concurrent requests that change the same object conflict.
    let object = known.ids.first().filter(|_| known.request.method != Method::GET);
    let _claim = match object {
        None => None,
        Some(id) => match processor.busy.claim(format!("object {id}")) {
            Some(claim) => Some(claim),
            None => return refused(&lock_timeout(), &known.request_id, |_| None),
        },
    };
    match switch {
        Some(FaultSwitch::LockTimeout) => {
            return refused(&lock_timeout(), &known.request_id, |_| None);
        }
        Some(FaultSwitch::RateLimit { retry_after_s }) => {
            return rate_limited(known, retry_after_s);
        }
        Some(FaultSwitch::Unavailable) => {
            return refused(&broken(503), &known.request_id, |_| None);
        }
        Some(FaultSwitch::ErrorBefore) => {
            return refused(&broken(500), &known.request_id, |_| None);
        }
        Some(FaultSwitch::HangBefore) => return ApiAnswer::Silence,
        Some(FaultSwitch::Delay { ms }) => {
            tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
        }
        Some(FaultSwitch::ErrorAfter | FaultSwitch::HangAfter | FaultSwitch::CloseAfter) | None => {
        }
    }
    let spoiled = matches!(switch, Some(FaultSwitch::ErrorAfter)).then(|| broken(500));
    let given = carry_out(processor, known, spoiled.as_ref());
    match switch {
        Some(FaultSwitch::HangAfter) => ApiAnswer::Silence,
        Some(FaultSwitch::CloseAfter) => ApiAnswer::Closed,
        _ => given,
    }
}

fn lock_timeout() -> ApiError {
    let message = "This object cannot be accessed right now because another API request or Stripe process is currently accessing it. If you see this error intermittently, retry the request. If you see this error frequently and are making multiple concurrent requests to a single object, make your requests serially or at a lower rate.";
    ApiError::invalid(message).code("lock_timeout").status(429)
}

fn rate_limit() -> ApiError {
    let message = "Request rate limit exceeded. Learn more about rate limits here: https://stripe.com/docs/rate-limits";
    ApiError::invalid(message).code("rate_limit").status(429)
}

fn rate_limited(known: &KnownRequest<'_>, retry_after_s: Option<u64>) -> ApiAnswer {
    let mut answer = refused(&rate_limit(), &known.request_id, |_| None);
    if let ApiAnswer::Given { headers, .. } = &mut answer {
        headers.extend(retry_after_s.map(|seconds| ("retry-after", seconds.to_string())));
    }
    answer
}

fn broken(status: u16) -> ApiError {
    let message = "Sorry! There was an error while talking to one of our backends. Support has been notified.";
    ApiError { kind: "api_error", ..ApiError::invalid(message).status(status) }
}

/// Carries out the request as a whole. `spoiled` replaces its response, and is stored under its
/// key.
fn carry_out(
    processor: &ProcessorSimulator,
    known: &KnownRequest<'_>,
    spoiled: Option<&ApiError>,
) -> ApiAnswer {
    let mut store = processor.locked();
    store.base.clone_from(&known.request.base);
    store.request = (Some(known.request_id.clone()), known.key.clone());
    processor.catch_up(&mut store);
    let is_about_endpoints = known.route.path().starts_with("webhook_endpoints");
    if is_about_endpoints {
        webhook_endpoints::note_own(&mut store, &processor.outbox.endpoint());
    }
    let mark = store.mark();
    let done = carry_out_in(&mut store, known);
    let (status, body) = match (&done, spoiled) {
        (Ok(_), Some(problem)) => (problem.status, problem.body(&known.request_id, |_| None)),
        (Ok(body), None) => (200, body.clone()),
        (Err(problem), _) => {
            if !problem.keeps {
                store.undo_to(mark);
            }
            let find =
                |id: &str| store.get(id).map(|object| shaped(&store, object, &known.version));
            (problem.status, problem.body(&known.request_id, find))
        }
    };
    // A request that was refused before it changed anything can be repeated with the same key.
    let kept = status == 200 || status == 402 || status >= 500;
    if let Some(key) = known.key.as_ref().filter(|_| kept) {
        let stored = json!({
            "id": format!("idempotency_{key}"), "object": "idempotency_key", "status": status, "body": body,
            "request_id": known.request_id, "expires_at": store.now + KEY_S,
            "fingerprint": format!("{} {} {}", known.request.method, known.request.path, known.params.fingerprint()),
        });
        store.put(stored);
    }
    if is_about_endpoints && done.is_ok() {
        match webhook_endpoints::sent_to_own(&store) {
            Some(sent) => processor.outbox.change(|endpoint| endpoint.enabled = sent),
            // It was deleted, or there was none.
            None => processor.outbox.change(|endpoint| endpoint.url = None),
        }
    }
    processor.settle(&mut store);
    ApiAnswer::Given { status, body, headers: retry_header(status, done.as_ref().err()) }
}

fn carry_out_in(store: &mut ObjectStore, known: &KnownRequest<'_>) -> Result<Value, ApiError> {
    let mut call = ApiCall {
        store,
        params: &known.params,
        ids: known.ids.clone(),
        caller: known.caller,
        version: &known.version,
    };
    let body = known.route.handle(&mut call)?;
    let names = known.params.names("expand");
    let expand: Vec<String> = names
        .iter()
        .filter_map(|name| known.params.text(&format!("expand.{name}")).map(str::to_owned))
        .collect();
    let mut shown = render::answer(store, &body, &expand)?;
    versions::shape(store, &mut shown, &known.version);
    if known.caller == ApiCaller::Browser {
        // A browser does not see the customer, nor the merchant's metadata of the payment.
        for name in ["customer", "metadata", "latest_charge"] {
            if let Some(map) = shown.as_object_mut() {
                map.remove(name);
            }
        }
    }
    Ok(shown)
}

fn shaped(store: &ObjectStore, object: &Value, version: &str) -> Value {
    let mut shown = render::whole(store, object);
    versions::shape(store, &mut shown, version);
    shown
}

fn retry_header(status: u16, problem: Option<&ApiError>) -> Vec<(&'static str, String)> {
    let again = match status {
        409 | 429 => problem.and_then(|problem| problem.code.as_deref()) != Some("rate_limit"),
        _ => return Vec::new(),
    };
    vec![("stripe-should-retry", again.to_string())]
}

fn refused(
    problem: &ApiError,
    request_id: &str,
    find: impl Fn(&str) -> Option<Value>,
) -> ApiAnswer {
    let headers = retry_header(problem.status, Some(problem));
    let headers = headers.into_iter().chain([("request-id", request_id.to_owned())]).collect();
    ApiAnswer::Given { status: problem.status, body: problem.body(request_id, find), headers }
}

fn with_headers(answer: ApiAnswer, known: &KnownRequest<'_>) -> ApiAnswer {
    match answer {
        ApiAnswer::Given { status, mut body, mut headers } => {
            headers.retain(|(name, _)| *name != "request-id");
            headers.push(("request-id", known.request_id.clone()));
            headers.push(("stripe-version", known.version.clone()));
            if let Some(key) = &known.key {
                headers.push(("idempotency-key", key.clone()));
                if !headers.iter().any(|(name, _)| *name == "original-request") {
                    headers.push(("original-request", known.request_id.clone()));
                }
            }
            if body.is_null() {
                set(&mut body, "object", "nothing");
            }
            ApiAnswer::Given { status, body, headers }
        }
        silent => silent,
    }
}
