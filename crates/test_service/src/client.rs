//! A small HTTP client; each client is one caller.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// A caller: an address, and headers for every request.
#[derive(Clone)]
pub struct Client {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    headers: Vec<(String, String)>,
}

/// A response, read completely.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body, whole.
    pub body: Bytes,
}

impl Client {
    /// A client of this address, without a key.
    pub fn new(address: SocketAddr) -> Self {
        let http = HyperClient::builder(TokioExecutor::new()).build_http();
        Self { http, address, headers: Vec::new() }
    }

    /// The same caller at another address.
    pub fn at(&self, address: SocketAddr) -> Self {
        Self { headers: self.headers.clone(), ..Self::new(address) }
    }

    /// The same caller with one more header.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.headers.push((name.to_owned(), value.to_owned()));
        other
    }

    /// The same client with a key.
    pub fn with_key(&self, key: &str) -> Self {
        self.with("x-api-key", key)
    }

    /// The same client with a bearer token.
    pub fn bearer(&self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    /// With a session cookie (`name=value`), as sent by a page of the service.
    pub fn with_session(&self, cookie: &str) -> Self {
        self.with("cookie", cookie).with("sec-fetch-site", "same-origin")
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, None).await
    }

    /// Sends a DELETE request.
    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, None).await
    }

    /// Sends a POST request with a JSON body.
    pub async fn post(&self, path: &str, json: &Value) -> Reply {
        self.json("POST", path, json).await
    }

    /// A request with a JSON body.
    pub async fn json(&self, method: &str, path: &str, json: &Value) -> Reply {
        let body = serde_json::to_vec(json).unwrap();
        self.with("content-type", "application/json").send(method, path, Some(body)).await
    }

    /// Sends any request and reads the response to its end.
    pub async fn send(&self, method: &str, path: &str, body: Option<Vec<u8>>) -> Reply {
        self.try_send(method, path, body).await.unwrap()
    }

    /// Sends any request; fails if the connection or the response breaks off.
    pub async fn try_send(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Reply, String> {
        let answer = self.begin(method, path, body.unwrap_or_default()).await?;
        let (parts, incoming) = answer.into_parts();
        let whole = incoming.collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
        let reply = Reply { status: parts.status.as_u16(), headers: parts.headers, body: whole };
        crate::conformity::assert_declared(method, path, &reply);
        crate::browser_rules::assert_kept(method, path, &reply);
        Ok(reply)
    }

    /// Sends a request without a body, and returns before the response's body is read.
    pub async fn open(&self, method: &str, path: &str) -> http::Response<Incoming> {
        self.begin(method, path, Vec::new()).await.unwrap()
    }

    async fn begin(
        &self,
        method: &str,
        path: &str,
        body: Vec<u8>,
    ) -> Result<http::Response<Incoming>, String> {
        let uri = format!("http://{}{path}", self.address);
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(body)).unwrap();
        self.http.request(request).await.map_err(|error| format!("{error:?}"))
    }
}

impl Reply {
    /// A header's value; empty if absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The cookie set by the response, as a browser returns it: `name=value`.
    pub fn cookie(&self) -> String {
        let set = self.header("set-cookie");
        set.split(';').next().unwrap_or_default().to_owned()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }

    /// The body, which must be JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The stable code of a failure; empty if there is none.
    pub fn code(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Status and stable code of a failure.
    pub fn failure(&self) -> (u16, String) {
        (self.status, self.code())
    }

    /// The wrong fields listed by a 422 with their kinds, in order.
    pub fn wrong_fields(&self) -> Vec<(String, String)> {
        assert_eq!(self.status, 422, "{}", self.text());
        let detail = self.json()["detail"].as_array().unwrap().clone();
        let place = |problem: &Value| {
            let steps = problem["loc"].as_array().unwrap();
            steps.iter().map(|step| step.as_str().unwrap()).collect::<Vec<_>>().join(".")
        };
        let named =
            |problem: &Value| (place(problem), problem["type"].as_str().unwrap().to_owned());
        detail.iter().map(named).collect()
    }

    /// The receipt: (cost, balance).
    pub fn receipt(&self) -> (i64, i64) {
        let number = |name: &str| self.header(name).parse().unwrap_or(-1);
        (number("x-credits-cost"), number("x-credits-balance"))
    }
}
