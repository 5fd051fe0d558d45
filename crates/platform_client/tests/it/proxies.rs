//! Connections through proxies, which are written by hand here; several hosts; and certificates
//! that are shown.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use domain::method::Method;
use http::{HeaderMap, HeaderValue};
use platform_client::oauth;
use platform_client::{
    AccountCredentials, CallErrorKind, CallPhase, CalledWith, ClientAuthentication, ClientError,
    HostSettings, NativeCall, OauthSettings, PlatformClient, PlatformTarget, TargetSettings,
};
use rustls::server::WebPkiClientVerifier;
use scripted_peer::{TestAuthority, secured, secured_by};
use zeroize::Zeroizing;

use crate::support::{
    SIGNING, ScriptedPlatform, TOKEN, always, call, facts, ok, settings, upstream,
};

/// How a proxy of the tests treats those who come.
#[derive(Debug, Clone, Copy)]
enum ProxyManner {
    Connect,
    /// Wants a login.
    Refuse,
    Hang,
    Socks5 {
        wants_login: bool,
    },
}

/// A proxy that knows nothing of this service: it leads every connection to this machine.
struct TestProxy {
    port: u16,
    /// What it was asked, one entry for each connection.
    asked: Arc<Mutex<Vec<String>>>,
    /// What it carried to platforms.
    carried: Arc<Mutex<Vec<u8>>>,
}

impl TestProxy {
    fn start(manner: ProxyManner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let carried: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (notes, bytes) = (Arc::clone(&asked), Arc::clone(&carried));
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let (notes, bytes) = (Arc::clone(&notes), Arc::clone(&bytes));
                thread::spawn(move || {
                    let note = |text: String| notes.lock().unwrap().push(text);
                    let platform = match manner {
                        ProxyManner::Socks5 { wants_login } => {
                            greet_socks(&mut client, wants_login, &note)
                        }
                        http => greet_http(&mut client, http, &note),
                    };
                    if let Some(platform) = platform {
                        carry(client, platform, &bytes);
                    }
                });
            }
        });
        Self { port, asked, carried }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn port_of(authority: &str) -> u16 {
    authority.rsplit_once(':').unwrap().1.parse().unwrap()
}

fn to_platform(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).unwrap()
}

fn greet_http(
    client: &mut TcpStream,
    manner: ProxyManner,
    note: &dyn Fn(String),
) -> Option<TcpStream> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let authority = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
    note(head);
    match manner {
        ProxyManner::Connect => {
            let platform = to_platform(port_of(&authority));
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            Some(platform)
        }
        ProxyManner::Hang => {
            while client.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            None
        }
        ProxyManner::Refuse | ProxyManner::Socks5 { .. } => {
            let refusal =
                "HTTP/1.1 407 Login\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n";
            client.write_all(refusal.as_bytes()).unwrap();
            None
        }
    }
}

fn exact(client: &mut TcpStream, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    client.read_exact(&mut bytes).ok().map(|()| bytes)
}

/// RFC 1928 and RFC 1929. Notes the login and what was asked for.
fn greet_socks(
    client: &mut TcpStream,
    wants_login: bool,
    note: &dyn Fn(String),
) -> Option<TcpStream> {
    let head = exact(client, 2)?;
    assert_eq!(head[0], 5);
    let methods = exact(client, usize::from(head[1]))?;
    let method = if wants_login { 2 } else { 0 };
    assert!(methods.contains(&method), "{methods:?}");
    client.write_all(&[5, method]).unwrap();
    let mut text = String::new();
    if wants_login {
        assert_eq!(exact(client, 1)?, [1]);
        for end in [":", "@"] {
            let length = exact(client, 1)?;
            text += &String::from_utf8(exact(client, usize::from(length[0]))?).unwrap();
            text += end;
        }
        client.write_all(&[1, 0]).unwrap();
    }
    let request = exact(client, 4)?;
    assert_eq!(request[..3], [5, 1, 0]);
    match request[3] {
        1 => text += &exact(client, 4)?.iter().map(u8::to_string).collect::<Vec<_>>().join("."),
        3 => {
            let length = exact(client, 1)?;
            text += &String::from_utf8(exact(client, usize::from(length[0]))?).unwrap();
        }
        other => panic!("an address of kind {other}"),
    }
    let port = exact(client, 2)?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    note(format!("{text}:{port}"));
    let platform = to_platform(port);
    client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0]).unwrap();
    Some(platform)
}

fn carry(mut client: TcpStream, mut platform: TcpStream, carried: &Mutex<Vec<u8>>) {
    let (mut back_from, mut back_to) = (platform.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        drop(std::io::copy(&mut back_from, &mut back_to));
        drop(back_to.shutdown(Shutdown::Write));
    });
    let mut bytes = [0; 4_096];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        carried.lock().unwrap().extend_from_slice(&bytes[..count]);
        if platform.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
    drop(platform.shutdown(Shutdown::Write));
}

/// A platform whose accounts name their proxies, which may be on this machine.
fn proxied(base_url: &str) -> TargetSettings {
    TargetSettings {
        proxy: Zeroizing::new("{proxy}".to_owned()),
        private_proxies: true,
        ..settings(base_url)
    }
}

fn behind(proxy: &str) -> AccountCredentials {
    let json = serde_json::json!({"token": TOKEN, "proxy": proxy}).to_string();
    AccountCredentials::from_json(json.as_bytes()).unwrap()
}

async fn call_as(
    upstream: &PlatformClient,
    target: &PlatformTarget,
    credentials: &AccountCredentials,
    path: &str,
) -> Result<(), ClientError> {
    let account = target.headers_of(credentials)?;
    let request = target.request(&NativeCall {
        call_id: &"call_1",
        method: Method::Get,
        path,
        query: "",
        caller_headers: &HeaderMap::new(),
        body: bytes::Bytes::new(),
        account: &account,
        signing: SIGNING,
    })?;
    let mut answer = upstream.send(target, request).await?;
    while answer.body.next().await?.is_some() {}
    Ok(())
}

#[tokio::test]
async fn an_http_proxy_makes_a_tunnel_that_it_cannot_look_into() {
    let authority = TestAuthority::new();
    let wire = secured(authority.server("127.0.0.1", |_| {}), always(ok("fine")));
    let proxy = TestProxy::start(ProxyManner::Connect);
    let mut settings = proxied(&wire.https_url());
    settings.ca_file = Some(authority.file.path().to_owned());
    let (upstream, target) = (upstream(), PlatformTarget::new(&settings).unwrap());
    let account = behind(&format!("http://ad%40m:p%3Aw@127.0.0.1:{}", proxy.port));

    for _ in 0..3 {
        call_as(&upstream, &target, &account, "users/me").await.unwrap();
    }

    let asked = proxy.asked();
    assert_eq!(wire.connections(), [0, 0, 0]);
    assert_eq!(asked.len(), 1, "{asked:?}");
    let place = wire.https_url().replace("https://", "");
    assert!(asked[0].starts_with(&format!("CONNECT {place} HTTP/1.1\r\n")), "{asked:?}");
    // ad@m:p:w
    assert!(asked[0].contains("Proxy-Authorization: Basic YWRAbTpwOnc=\r\n"), "{asked:?}");
    assert!(wire.seen()[0].text.contains(TOKEN));
    assert!(!wire.seen()[0].text.contains("proxy"), "{:?}", wire.seen());
    let carried = proxy.carried.lock().unwrap().clone();
    assert!(!carried.is_empty());
    assert!(!carried.windows(TOKEN.len()).any(|bytes| bytes == TOKEN.as_bytes()));
}

#[tokio::test]
async fn a_socks_proxy_is_told_the_name_and_looks_it_up_itself() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let port = port_of(&wire.url());
    let target = PlatformTarget::new(&proxied(&format!("http://platform.invalid:{port}"))).unwrap();
    for (wants_login, login, expected) in [
        (true, "ada:pass%20word@", format!("ada:pass word@platform.invalid:{port}")),
        (false, "", format!("platform.invalid:{port}")),
    ] {
        let proxy = TestProxy::start(ProxyManner::Socks5 { wants_login });
        let account = behind(&format!("socks5://{login}127.0.0.1:{}", proxy.port));

        call_as(&upstream(), &target, &account, "users/me").await.unwrap();

        assert_eq!(proxy.asked(), [expected]);
    }
    let host = format!("host: platform.invalid:{port}\r\n");
    assert!(wire.seen().iter().all(|seen| seen.text.contains(&host)), "{:?}", wire.seen());
}

#[tokio::test]
async fn a_proxy_for_all_accounts_is_configured_once() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let proxy = TestProxy::start(ProxyManner::Connect);
    let mut settings = settings(&wire.url());
    settings.proxy = Zeroizing::new(format!("http://127.0.0.1:{}", proxy.port));
    let target = PlatformTarget::new(&settings).unwrap();

    call(&upstream(), &target, Method::Post, "x", "abc").await.unwrap();

    assert_eq!(proxy.asked().len(), 1);
    assert!(wire.only().ends_with("abc"));
}

#[tokio::test]
async fn accounts_behind_different_proxies_never_share_a_connection() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let (upstream, target) = (upstream(), PlatformTarget::new(&proxied(&wire.url())).unwrap());
    let proxies = [(); 2].map(|()| TestProxy::start(ProxyManner::Connect));
    let [one, other] =
        [&proxies[0], &proxies[1]].map(|proxy| format!("http://127.0.0.1:{}", proxy.port));
    let login = one.replace("127", "ada:x@127");
    let mut calls =
        vec![behind(&one), behind(&other), behind(&login), behind(&one), behind(&login)];
    calls.push(AccountCredentials::from_json(br#"{"token":"t"}"#).unwrap());
    calls.push(behind(&other));

    for account in &calls {
        call_as(&upstream, &target, account, "users/me").await.unwrap();
    }

    // The same way with the same login, and only that, is the same connection.
    assert_eq!(wire.connections(), [0, 1, 2, 0, 2, 3, 1]);
    assert_eq!([proxies[0].asked().len(), proxies[1].asked().len()], [2, 1]);
}

#[tokio::test]
async fn a_proxy_that_makes_no_tunnel_is_no_connection() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let mut settings = proxied(&wire.url());
    settings.timeouts.connect = Duration::from_millis(200);
    let target = PlatformTarget::new(&settings).unwrap();
    for (manner, kind) in [
        (ProxyManner::Refuse, CallErrorKind::Connect),
        (ProxyManner::Hang, CallErrorKind::Timeout(CallPhase::Connect)),
    ] {
        let proxy = TestProxy::start(manner);
        let account = behind(&format!("http://user:hush@127.0.0.1:{}", proxy.port));

        let error = call_as(&upstream(), &target, &account, "users/me").await.unwrap_err();

        let (_, found, sent, _) = facts(&error);
        assert_eq!((found, sent), (kind, false), "{error:?}");
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    }
    let nobody = behind("socks5://127.0.0.1:1");
    let error = call_as(&upstream(), &target, &nobody, "users/me").await.unwrap_err();
    assert_eq!((error.kind, error.sent), (CallErrorKind::Connect, false));
    assert_eq!(wire.seen().len(), 0);
}

#[tokio::test]
async fn a_proxy_of_an_account_is_on_no_private_address_unless_that_is_configured() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let proxy = TestProxy::start(ProxyManner::Connect);
    let settings = TargetSettings { private_proxies: false, ..proxied(&wire.url()) };
    let target = PlatformTarget::new(&settings).unwrap();

    for host in ["127.0.0.1", "[::1]", "10.0.0.1", "localhost"] {
        let account = behind(&format!("http://{host}:{}", proxy.port));
        let error = call_as(&upstream(), &target, &account, "x").await.unwrap_err();
        assert_eq!((error.kind, error.sent), (CallErrorKind::Build, false), "{host}");
    }
    // Names are looked up, and other ways to write an address are names.
    let disguised = behind(&format!("http://127.1:{}", proxy.port));
    let error = call_as(&upstream(), &target, &disguised, "x").await.unwrap_err();
    assert_eq!((error.kind, error.sent), (CallErrorKind::Connect, false));
    assert_eq!((proxy.asked().len(), wire.seen().len()), (0, 0));
}

#[tokio::test]
async fn a_token_is_refreshed_through_the_proxy_of_its_account() {
    let tokens = ScriptedPlatform::start(always(ok(r#"{"access_token":"fresh"}"#)));
    let proxy = TestProxy::start(ProxyManner::Connect);
    let mut settings = proxied("http://127.0.0.1:1");
    settings.oauth = Some(OauthSettings {
        token_url: format!("{}/token", tokens.url()),
        client_id: "id".to_owned(),
        client_secret: Zeroizing::new("secret".to_owned()),
        authentication: ClientAuthentication::Post,
    });
    let target = PlatformTarget::new(&settings).unwrap();
    let account = behind(&format!("http://127.0.0.1:{}", proxy.port));
    let account = target.headers_of(&account).unwrap();

    let wanted = oauth::TokenRequest {
        refresh_token: "old",
        account: Some((&account, SIGNING.now)),
        patience: Duration::from_secs(20),
    };
    let fresh = oauth::refresh(&upstream(), &target, &wanted).await.unwrap();

    assert_eq!((fresh.access_token.as_str(), proxy.asked().len()), ("fresh", 1));
}

#[tokio::test]
async fn a_platform_sees_the_configured_certificate_and_nobody_without_it() {
    let authority = TestAuthority::new();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.certificate()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let wire = secured(secured_by(&authority, "127.0.0.1", verifier), always(ok("fine")));
    let mut settings = settings(&wire.https_url());
    settings.ca_file = Some(authority.file.path().to_owned());
    let without = PlatformTarget::new(&settings).unwrap();
    let (certificate, key) = authority.client();
    settings.client_certificate_file = Some(certificate.path().to_owned());
    settings.client_key_file = Some(key.path().to_owned());

    call(&upstream(), &PlatformTarget::new(&settings).unwrap(), Method::Get, "x", "")
        .await
        .unwrap();
    assert_eq!(wire.seen().len(), 1);
    assert!(call(&upstream(), &without, Method::Get, "x", "").await.is_err());
    assert_eq!(wire.seen().len(), 1);

    let (_, other_key) = authority.client();
    for (shown, its_key, problem) in [
        (Some(certificate.path()), None, "client_key_file"),
        (None, Some(key.path()), "client_certificate_file"),
        (Some(key.path()), Some(key.path()), "client_certificate_file"),
        (Some(certificate.path()), Some(certificate.path()), "client_key_file"),
        (Some(certificate.path()), Some(other_key.path()), "client_key_file"),
    ] {
        settings.client_certificate_file = shown.map(ToOwned::to_owned);
        settings.client_key_file = its_key.map(ToOwned::to_owned);
        let problems = PlatformTarget::new(&settings).unwrap_err();
        assert_eq!(problems[0].key, problem, "{problems:?}");
    }
}

#[tokio::test]
async fn native_paths_lead_to_the_host_that_serves_them() {
    let [first, uploads] = [(); 2].map(|()| ScriptedPlatform::start(always(ok("fine"))));
    let mut settings = settings(&first.url());
    settings.hosts = vec![HostSettings {
        path: "uploads/".to_owned(),
        base_url: format!("{}/v2", uploads.url()),
    }];
    let (upstream, target) = (upstream(), PlatformTarget::new(&settings).unwrap());

    for path in ["uploads/1", "uploaded/1", "uploads/2"] {
        call(&upstream, &target, Method::Get, path, "").await.unwrap();
    }

    let lines = |wire: &ScriptedPlatform| -> Vec<String> {
        wire.seen().iter().map(|seen| seen.text.lines().next().unwrap().to_owned()).collect()
    };
    assert_eq!(lines(&first), ["GET /api/uploaded/1 HTTP/1.1"]);
    assert_eq!(lines(&uploads), ["GET /v2/uploads/1 HTTP/1.1", "GET /v2/uploads/2 HTTP/1.1"]);
    let host = uploads.url().replace("http://", "host: ");
    assert!(uploads.seen()[0].text.contains(&host), "{:?}", uploads.seen());
}

#[test]
fn references_of_a_host_lead_to_native_paths_that_it_serves() {
    let mut settings = settings("https://p.example");
    settings.response_headers = vec!["Location".to_owned()];
    settings.hosts = vec![HostSettings {
        path: "uploads".to_owned(),
        base_url: "https://up.example/v2".to_owned(),
    }];
    let target = PlatformTarget::new(&settings).unwrap();
    for (path, location, name, expected) in [
        ("uploads/1", "/v2/uploads/2", "location", "/v1/ada/native/uploads/2"),
        ("uploads/1", "2", "location", "/v1/ada/native/uploads/2"),
        ("uploads/1", "/v2/me", "x-platform-location", "https://up.example/v2/me"),
        ("users/1", "/api/users/2", "location", "/v1/ada/native/users/2"),
        ("users/1", "/api/uploads/2", "x-platform-location", "https://p.example/api/uploads/2"),
    ] {
        let mut response = HeaderMap::new();
        response.insert("location", HeaderValue::from_static(location));
        let called = CalledWith { account: "ada", path, query: "" };

        let passed = target.headers_for_caller(&response, called, None);

        assert_eq!(passed.get(name).unwrap(), expected, "{path} {location}");
    }
}
