//! A pool for one test, and requests that go through it.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use outbound::{
    CallTimeouts, ClientError, ConnectionPool, ConnectionSettings, PlatformResponse, ReadLimits,
    ReadUpTo, RequestBody, UpstreamSettings, client_config,
};

/// Connections without authorities of their own, with ample times.
pub(crate) fn settings() -> ConnectionSettings {
    ConnectionSettings {
        timeouts: CallTimeouts::default(),
        ca_file: None,
        identity: None,
        tls: client_config(None).unwrap(),
    }
}

pub(crate) fn pool() -> ConnectionPool {
    ConnectionPool::new(&settings(), &UpstreamSettings::default())
}

/// A pool that waits this long for the head of an answer, and for each part of its body.
pub(crate) fn impatient(milliseconds: u64) -> ConnectionPool {
    let wait = Duration::from_millis(milliseconds);
    let timeouts = CallTimeouts { first_byte: wait, between_bytes: wait, ..settings().timeouts };
    let settings = ConnectionSettings { timeouts, ..settings() };
    ConnectionPool::new(&settings, &UpstreamSettings::default())
}

pub(crate) fn get(url: &str) -> Request<RequestBody> {
    Request::get(url).body(RequestBody::empty()).unwrap()
}

pub(crate) fn post(url: &str, body: &'static str) -> Request<RequestBody> {
    Request::post(url).body(RequestBody::whole(Bytes::from_static(body.as_bytes()))).unwrap()
}

/// Sends a request and reads its answer to the end.
pub(crate) async fn whole(
    pool: &ConnectionPool,
    request: Request<RequestBody>,
) -> Result<String, ClientError> {
    body(pool.send(request).await?).await
}

pub(crate) async fn body(mut response: PlatformResponse) -> Result<String, ClientError> {
    match response.body.read_up_to(ReadLimits::bytes(1_000_000)).await? {
        ReadUpTo::Whole(bytes) => Ok(String::from_utf8(bytes.to_vec()).unwrap()),
        ReadUpTo::Partial(_) => panic!("a longer answer than any test has"),
    }
}
