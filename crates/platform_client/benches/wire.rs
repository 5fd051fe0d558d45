//! What every call pays before and after its way to a platform: the check of path and query,
//! building a request and signing it, and taking off the envelope.
//! `cargo bench -p platform_client`.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use domain::method::Method;
use domain::platform::Platform;
use domain::time::Timestamp;
use platform_client::envelope::{self, EnvelopeContent};
use platform_client::path::{self, PathProblem};
use platform_client::{
    AccountCredentials, CallTimeouts, NativeCall, PlatformTarget, SettingsProblem, SigningInput,
    SigningSettings, TargetSettings, VerifySettings,
};
use serde_json::json;

/// Rows of the enveloped answers: a small one, and one of some hundred kilobytes.
const ROWS: [usize; 2] = [10, 2_000];
const PATHS: [(&str, &str); 3] = [
    ("short", "users/me"),
    ("long", "chats/123456789/messages/987654321/attachments/1/previews/large/of/the/first/page"),
    ("encoded", "lists/caf%C3%A9/users/%E6%97%A5%E6%9C%AC"),
];
const QUERY: &str =
    "limit=100&offset=200&order=desc&filter%5Bstate%5D=active&before=2026-01-01T00%3A00%3A00Z";

fn hygiene(criterion: &mut Criterion) -> Result<(), PathProblem> {
    let mut group = criterion.benchmark_group("check");
    for (name, raw) in PATHS {
        path::check_path(raw)?;
        group.bench_function(format!("{name} path"), |bencher| {
            bencher.iter(|| path::check_path(black_box(raw)).is_ok());
        });
    }
    path::check_query(QUERY)?;
    group.bench_function("query", |bencher| {
        bencher.iter(|| path::check_query(black_box(QUERY)).is_ok());
    });
    group.finish();
    Ok(())
}

fn answer(rows: usize) -> Vec<u8> {
    let row = |id| json!({"id": id, "text": "some words \u{e9} and \"quotes\"", "price": 4.99, "tags": ["a", "b"]});
    let list: Vec<_> = (0..rows).map(row).collect();
    json!({"success": true, "response": {"list": list, "hasMore": true}}).to_string().into_bytes()
}

fn unwrapping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("take off the envelope");
    for rows in ROWS {
        let body = answer(rows);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("{rows} rows"), |bencher| {
            bencher
                .iter(|| matches!(envelope::unwrap(black_box(&body)), EnvelopeContent::Inner(_)));
        });
    }
    group.finish();
}

/// A platform like `platform_beta`, signed or not.
fn target(is_signed: bool) -> Result<PlatformTarget, Vec<SettingsProblem>> {
    PlatformTarget::new(&TargetSettings {
        platform: Platform::BETA,
        credential_fields: None,
        base_url: "http://127.0.0.1:1".to_owned(),
        path_prefix: "/api/v1/".to_owned(),
        headers: vec![("Authorization".to_owned(), "{token}".to_owned())],
        version_header: None,
        signing: is_signed.then(|| SigningSettings {
            scheme: "hmac-sha256-v1".to_owned(),
            key: "sandbox-signing-key".to_owned().into(),
            client_id: "gateway".to_owned(),
            client_version: "7.1".to_owned(),
            ..SigningSettings::default()
        }),
        envelope: true,
        envelope_pointers: None,
        cookies: false,
        query: Vec::new(),
        response_headers: Vec::new(),
        user_agent: "creator-gateway".to_owned(),
        verify: VerifySettings { path: "account/me".to_owned(), ..VerifySettings::default() },
        oauth: None,
        timeouts: CallTimeouts::default(),
        ca_file: None,
        client_certificate_file: None,
        client_key_file: None,
        proxy: String::new().into(),
        private_proxies: false,
        hosts: Vec::new(),
    })
}

fn building(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build a request");
    let caller = http::HeaderMap::new();
    let credentials = AccountCredentials::from_json(br#"{"token":"t0k3n"}"#).unwrap_or_default();
    for (name, is_signed) in [("unsigned", false), ("hmac-sha256-v1", true)] {
        let Ok(target) = target(is_signed) else { continue };
        let Ok(account) = target.headers_of(&credentials) else { continue };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                target.request(&NativeCall {
                    call_id: &"call_1",
                    method: Method::Get,
                    path: black_box("message/123456/replies"),
                    query: black_box("limit=100&offset=200&order=desc"),
                    caller_headers: &caller,
                    body: bytes::Bytes::new(),
                    account: &account,
                    signing: SigningInput {
                        now: Timestamp::from_unix_micros(black_box(1_795_234_422_123_999)),
                        nonce: black_box([7; 16]),
                    },
                })
            });
        });
    }
    group.finish();
}

fn main() -> Result<(), PathProblem> {
    let mut criterion = Criterion::default().configure_from_args();
    hygiene(&mut criterion)?;
    building(&mut criterion);
    unwrapping(&mut criterion);
    criterion.final_summary();
    Ok(())
}
