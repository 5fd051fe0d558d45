//! A client that calls the simulators in process, as one of the demo accounts.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::{Value, json};
use sha2::Sha256;
use simulator_kit::script::WireReply;
use simulator_kit::{RunningService, SimulatorClock, SimulatorEnvironment, SimulatorService};
use simulator_platforms::{DemoAccount, PlatformSettings, PlatformsSimulator, demo_accounts};

/// The time at which tests start: 2026-02-01T00:00:00Z.
pub(crate) const NOW_MS: i64 = 1_769_904_000_000;

static NONCES: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Kit {
    pub(crate) clock: SimulatorClock,
    service: SimulatorService,
    accounts: Vec<DemoAccount>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Kit {
    /// Simulators without a data folder.
    pub(crate) fn new() -> Self {
        Self::with(&PlatformSettings::default())
    }

    /// Simulators that keep their data in this folder.
    pub(crate) fn on(folder: &Path) -> Self {
        Self::started_at(NOW_MS, Some(folder))
    }

    /// Simulators with these settings, without a data folder.
    pub(crate) fn with(settings: &PlatformSettings) -> Self {
        Self::open(&environment(NOW_MS, None), settings)
    }

    /// Simulators started at this time, with this data folder if there is one.
    pub(crate) fn started_at(now_ms: i64, folder: Option<&Path>) -> Self {
        Self::open(&environment(now_ms, folder), &PlatformSettings::default())
    }

    fn open(environment: &SimulatorEnvironment, settings: &PlatformSettings) -> Self {
        let service = service(environment, settings);
        Self { clock: environment.clock.clone(), service, accounts: demo_accounts(settings) }
    }

    pub(crate) fn auth(&self, creator_id: &str) -> &Value {
        &self.account(creator_id).auth
    }

    fn account(&self, creator_id: &str) -> &DemoAccount {
        self.accounts.iter().find(|account| account.creator_id == creator_id).unwrap()
    }

    /// Sends a request with the credentials of the creator, to a path of its platform.
    pub(crate) async fn send(
        &self,
        creator_id: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> Reply {
        let (target, headers) = self.credentials(creator_id, &method, path);
        self.raw(method, &target, &headers, body).await
    }

    /// The same for responses that need not be JSON: status, headers and bytes.
    pub(crate) async fn whole_of(
        &self,
        creator_id: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> (u16, HeaderMap, Vec<u8>) {
        let (target, headers) = self.credentials(creator_id, &method, path);
        let request = request(method, &target, &headers, body);
        let answer = self.service.respond(request).await;
        (answer.status.as_u16(), answer.headers, answer.body.to_vec())
    }

    /// Status, headers and bytes of the response to a GET.
    pub(crate) async fn whole(&self, creator_id: &str, path: &str) -> (u16, HeaderMap, Vec<u8>) {
        self.whole_of(creator_id, Method::GET, path, Value::Null).await
    }

    /// The path on the creator's platform, and the headers that its owner sends.
    fn credentials(
        &self,
        creator_id: &str,
        method: &Method,
        path: &str,
    ) -> (String, Vec<(&'static str, String)>) {
        let account = self.account(creator_id);
        let text = |name: &str| account.auth[name].as_str().unwrap_or_default().to_owned();
        let target = format!("/{}/{path}", account.platform);
        match account.platform {
            "platform_alpha" => {
                let headers = vec![
                    ("authorization", format!("Session {}", text("session_token"))),
                    ("x-user-id", text("user_id")),
                    ("user-agent", text("user_agent")),
                ];
                (target, headers)
            }
            "platform_beta" => {
                let prefixed = format!("/platform_beta/api/v1/{path}");
                let headers = self.signed(&text("token"), method, &prefixed);
                (prefixed, headers)
            }
            "platform_gamma" => {
                let token = format!("Bearer {}", text("token"));
                (target, vec![("authorization", token), ("x-resource", text("resource"))])
            }
            "platform_delta" => {
                let token = format!("Bearer {}", text("access_token"));
                let version = "2025-06-26".to_owned();
                (target, vec![("authorization", token), ("x-api-version", version)])
            }
            other => panic!("no credentials are known for {other}"),
        }
    }

    /// Posts a multipart form to `platform_gamma`.
    pub(crate) async fn multipart(
        &self,
        creator_id: &str,
        path: &str,
        boundary: &str,
        body: Vec<u8>,
    ) -> Reply {
        let auth = self.auth(creator_id);
        let request = Request::post(format!("/platform_gamma/{path}"))
            .header("authorization", format!("Bearer {}", auth["token"].as_str().unwrap()))
            .header("x-resource", auth["resource"].as_str().unwrap())
            .header("content-type", format!("multipart/form-data; boundary={boundary}"))
            .body(Bytes::from(body));
        self.answer(request.unwrap()).await
    }

    /// The bytes of an uploaded file, by their SHA-256.
    pub(crate) async fn file(&self, sha256: &str) -> Option<Vec<u8>> {
        let request = Request::get(format!("/control/files/{sha256}")).body(Bytes::new()).unwrap();
        let answer = self.service.respond(request).await;
        (answer.status == StatusCode::OK).then(|| answer.body.to_vec())
    }

    /// The headers of a `platform_beta` request to this target, with a new nonce.
    pub(crate) fn signed(
        &self,
        token: &str,
        method: &Method,
        target: &str,
    ) -> Vec<(&'static str, String)> {
        let nonce = format!("nonce-{}", NONCES.fetch_add(1, Ordering::Relaxed));
        let timestamp = self.clock.now_ms().to_string();
        let signed = format!("{timestamp}\n{nonce}\n{method}\n{target}");
        let mut mac = Hmac::<Sha256>::new_from_slice(b"sandbox-signing-key").unwrap();
        mac.update(signed.as_bytes());
        vec![
            ("authorization", token.to_owned()),
            ("x-client-id", "sandbox-client".to_owned()),
            ("x-client-timestamp", timestamp),
            ("x-client-nonce", nonce),
            ("x-client-version", "1.0.0".to_owned()),
            ("x-client-signature", hex::encode(mac.finalize().into_bytes())),
        ]
    }

    /// Posts a form.
    pub(crate) async fn form(&self, target: &str, pairs: &[(&str, &str)]) -> Reply {
        let pairs: Vec<String> =
            pairs.iter().map(|(key, value)| format!("{key}={}", value.replace(' ', "+"))).collect();
        let request = Request::post(target)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Bytes::from(pairs.join("&")));
        self.answer(request.unwrap()).await
    }

    pub(crate) async fn get(&self, creator_id: &str, path: &str) -> Value {
        let reply = self.send(creator_id, Method::GET, path, Value::Null).await;
        assert_eq!(reply.status, StatusCode::OK, "GET {path}: {}", reply.body);
        reply.body
    }

    pub(crate) async fn post(&self, creator_id: &str, path: &str, body: Value) -> Value {
        let reply = self.send(creator_id, Method::POST, path, body).await;
        assert!(reply.status.is_success(), "POST {path}: {} {}", reply.status, reply.body);
        reply.body
    }

    /// Sends a request with exactly these headers; a `null` body is omitted.
    pub(crate) async fn raw(
        &self,
        method: Method,
        target: &str,
        headers: &[(&str, String)],
        body: Value,
    ) -> Reply {
        self.answer(request(method, target, headers, body)).await
    }

    /// Posts this text as if it were JSON.
    pub(crate) async fn raw_text(
        &self,
        target: &str,
        headers: &[(&str, String)],
        body: &'static str,
    ) -> Reply {
        let mut request = Request::post(target).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.answer(request.body(Bytes::from(body)).unwrap()).await
    }

    async fn answer(&self, request: Request<Bytes>) -> Reply {
        let WireReply { status, body, .. } = self.service.respond(request).await;
        let body =
            if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        Reply { status, body }
    }

    pub(crate) async fn control(&self, target: &str) -> Value {
        self.raw(Method::GET, &format!("/control{target}"), &[], Value::Null).await.body
    }

    /// The routes of a platform, as `METHOD path`.
    pub(crate) async fn routes(&self, platform: &str) -> BTreeSet<String> {
        let routes = self.control("/routes").await;
        let of_platform =
            routes["routes"].as_array().unwrap().iter().filter(|it| it["platform"] == platform);
        of_platform
            .map(|it| {
                format!("{} {}", it["method"].as_str().unwrap(), it["path"].as_str().unwrap())
            })
            .collect()
    }
}

/// Platforms on sockets, with a stopped clock.
pub(crate) fn listening() -> RunningService {
    let service = service(&environment(NOW_MS, None), &PlatformSettings::default());
    service.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap()
}

/// A clock stopped at this time, and the folder.
fn environment(now_ms: i64, folder: Option<&Path>) -> SimulatorEnvironment {
    let data = folder.map(Into::into);
    SimulatorEnvironment {
        data,
        clock: SimulatorClock::manual(now_ms),
        ..SimulatorEnvironment::default()
    }
}

fn service(environment: &SimulatorEnvironment, settings: &PlatformSettings) -> SimulatorService {
    let platforms = PlatformsSimulator::open(environment, settings).unwrap();
    SimulatorService::new(vec![Arc::new(platforms)], environment.clock.clone())
}

/// A request with exactly these headers; a `null` body is omitted.
fn request(
    method: Method,
    target: &str,
    headers: &[(&str, String)],
    body: Value,
) -> Request<Bytes> {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    match body {
        Value::Null => request.body(Bytes::new()).unwrap(),
        body => {
            let request = request.header("content-type", "application/json");
            request.body(Bytes::from(body.to_string())).unwrap()
        }
    }
}

/// One route of a platform's table: its form in the specification, the body to send, and the
/// expected status.
pub(crate) struct Row {
    pub(crate) method: &'static str,
    pub(crate) template: &'static str,
    pub(crate) query: &'static str,
    pub(crate) body: Value,
    pub(crate) status: u16,
}

impl Row {
    pub(crate) fn get(template: &'static str) -> Self {
        Self { method: "GET", template, query: "", body: Value::Null, status: 200 }
    }

    pub(crate) fn new(method: &'static str, template: &'static str, body: Value) -> Self {
        Self { method, template, query: "", body, status: 200 }
    }

    pub(crate) fn query(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    pub(crate) fn answers(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// The path with the ids filled in.
    pub(crate) fn path(&self, ids: &[(&str, String)]) -> String {
        let mut path = format!("{}{}", self.template, self.query);
        for (name, id) in ids {
            path = path.replace(&format!("{{{name}}}"), id);
        }
        assert!(!path.contains('{'), "an id is missing in {path}");
        path
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    pub(crate) fn method(&self) -> Method {
        self.method.parse().unwrap()
    }
}

/// An id in JSON in the form of paths.
pub(crate) fn id_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Nothing, for routes without a body.
pub(crate) fn none() -> Value {
    json!(null)
}
