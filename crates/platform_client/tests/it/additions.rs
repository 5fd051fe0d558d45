//! What platforms want besides: parameters behind the query, headers that change, other ways to
//! verify, and envelopes of their own.

use bytes::Bytes;
use domain::method::Method;
use http::{HeaderMap, HeaderValue, Request};
use platform_client::envelope::EnvelopeContent;
use platform_client::{
    AccountCredentials, CallErrorKind, CalledWith, ClientError, CredentialField, CredentialVerdict,
    EnvelopeSettings, NativeCall, PlatformTarget, PresentedAccount, SigningSettings,
    TargetSettings, ValuesSettings, ValuesSource, VerifySettings, verify,
};
use zeroize::Zeroizing;

use crate::support::{
    SIGNING, ScriptedPlatform, TOKEN, always, credentials, ok, settings, upstream,
};

fn with_query(base_url: &str, query: &[(&str, &str)]) -> TargetSettings {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    TargetSettings { query: query.iter().map(owned).collect(), ..settings(base_url) }
}

fn built(
    target: &PlatformTarget,
    query: &str,
) -> Result<Request<platform_client::RequestBody>, ClientError> {
    let account = target.headers_of(&credentials())?;
    target.request(&NativeCall {
        call_id: &"call_1",
        method: Method::Get,
        path: "users/me",
        query,
        caller_headers: &HeaderMap::new(),
        body: Bytes::new(),
        account: &account,
        signing: SIGNING,
    })
}

#[tokio::test]
async fn parameters_of_the_service_stand_behind_the_callers_and_are_signed() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let query = [("key", "{token}"), ("v", "2 x"), ("gone", "{absent}")];
    let settings = TargetSettings {
        signing: Some(SigningSettings {
            scheme: "recipe".to_owned(),
            parts: vec![platform_client::PartSettings {
                name: "target".to_owned(),
                from: "target".to_owned(),
                ..Default::default()
            }],
            headers: vec![("X-Target".to_owned(), "{target}".to_owned())],
            ..SigningSettings::default()
        }),
        ..with_query(&wire.url(), &query)
    };
    let target = PlatformTarget::new(&settings).unwrap();

    upstream().send(&target, built(&target, "a=1&a=%20").unwrap()).await.unwrap();

    let line = format!("/api/users/me?a=1&a=%20&key={TOKEN}&v=2%20x");
    let text = wire.only();
    assert!(text.starts_with(&format!("GET {line} HTTP/1.1\r\n")), "{text}");
    assert!(text.contains(&format!("x-target: {line}\r\n")), "{text}");
    assert_eq!(built(&target, "").unwrap().uri().query(), Some(&*format!("key={TOKEN}&v=2%20x")));
}

#[test]
fn a_parameter_of_the_service_is_not_the_callers_to_give() {
    let target =
        PlatformTarget::new(&with_query("http://127.0.0.1:1", &[("key", "{token}")])).unwrap();

    for query in ["key=mine", "a=1&k%65y"] {
        assert_eq!(target.reserved_parameter(query), Some("key"));
        let error = built(&target, query).unwrap_err();
        assert_eq!((error.kind, error.sent), (CallErrorKind::Build, false));
        assert!(!format!("{error:?}").contains(TOKEN));
    }
    assert_eq!(target.reserved_parameter("keys=1"), None);
}

#[test]
fn a_platform_that_repeats_a_parameter_tells_the_caller_nothing() {
    let mut settings = with_query("https://p.example", &[("key", "{token}")]);
    settings.response_headers = ["Location", "Link", "X-Total"].map(str::to_owned).to_vec();
    let target = PlatformTarget::new(&settings).unwrap();
    let called = CalledWith { account: "ada", path: "users", query: "page=1" };
    let credentials = AccountCredentials::from_json(br#"{"token":"hush"}"#).unwrap();
    let account = target.headers_of(&credentials).unwrap();
    for (name, told, passed_name, passed) in [
        ("location", "/api/users?page=2&key=hush", "location", "/v1/ada/native/users?page=2"),
        (
            "location",
            "https://other.example/?key=hush",
            "x-platform-location",
            "https://other.example/",
        ),
        (
            "link",
            "<?key=hush&page=2>; rel=\"next\"",
            "link",
            "</v1/ada/native/users?page=2>; rel=\"next\"",
        ),
        (
            "location",
            "/api/login?next=%2Fusers%3Fkey%3Dhush",
            "location",
            "/v1/ada/native/login?next=%2Fusers%3Fkey%3D***",
        ),
        ("x-total", "{\"next\":\"/users?key=hush\"}", "x-total", "{\"next\":\"/users?key=***\"}"),
    ] {
        let mut response = HeaderMap::new();
        response.insert(name, HeaderValue::from_static(told));
        let headers = target.headers_for_caller(&response, called, Some(&account));
        assert_eq!(headers.get(passed_name).unwrap(), passed, "{told}");
        assert!(!format!("{headers:?}").contains("hush"));
    }
}

#[test]
fn credentials_of_parameters_and_proxies_are_checked_against_the_declared_ones() {
    let mut settings = with_query("http://127.0.0.1:1", &[("key", "{tokn}")]);
    settings.proxy = Zeroizing::new("{prox}".to_owned());
    let field = |name: &str| CredentialField { name: name.to_owned(), has_members: false };
    settings.credential_fields = Some(vec![field("token"), field("user_id"), field("proxy")]);

    let problems = PlatformTarget::new(&settings).unwrap_err();

    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["proxy", "query[0].value"]);
}

#[tokio::test]
async fn a_header_changes_with_the_value_that_it_names() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"app.token":"x","app-token":"one"}"#).unwrap();
    let values = ValuesSettings {
        source: ValuesSource::File(file.path().to_owned()),
        refresh: std::time::Duration::from_mins(1),
    };
    let mut settings = settings("http://127.0.0.1:1");
    settings.headers.push(("App-Token".to_owned(), "v1 {signing.app-token} {call_id}".to_owned()));
    settings.signing = Some(SigningSettings { values: Some(values), ..SigningSettings::default() });
    let target = PlatformTarget::new(&settings).unwrap();
    let header = || {
        let request = built(&target, "").unwrap();
        let value = request.headers().get("app-token").unwrap().clone();
        assert!(value.is_sensitive());
        value.to_str().unwrap().to_owned()
    };

    assert_eq!(header(), "v1 one call_1");
    std::fs::write(file.path(), r#"{"app-token":"two"}"#).unwrap();
    target.read_values().await.unwrap();
    assert_eq!(header(), "v1 two call_1");

    settings.signing = None;
    let problems = PlatformTarget::new(&settings).unwrap_err();
    assert_eq!(problems[0].key, "headers[1].value");
    assert!(problems[0].message.contains("{signing.app-token}"), "{problems:?}");
}

#[tokio::test]
async fn credentials_are_proven_by_another_method_with_a_body() {
    let wire = ScriptedPlatform::start(always(ok(r#"{"result":{"id":"17"},"ok":true}"#)));
    let mut settings = settings(&wire.url());
    settings.verify = VerifySettings {
        path: "session/check".to_owned(),
        method: "POST".to_owned(),
        body: r#"{"scope":"all"}"#.to_owned(),
        id_pointer: Some("/id".to_owned()),
        equals_field: Some("user_id".to_owned()),
        accepted_statuses: Vec::new(),
    };
    settings.envelope_pointers = Some(EnvelopeSettings {
        data: "/result".to_owned(),
        success: "/ok".to_owned(),
        ..EnvelopeSettings::default()
    });
    let target = PlatformTarget::new(&settings).unwrap();

    let verdict =
        verify::verify(&upstream(), &target, PresentedAccount::of(&credentials()), SIGNING)
            .await
            .unwrap();

    let id = Some("17".to_owned());
    assert_eq!(verdict, CredentialVerdict::Confirmed { platform_account_id: id });
    let text = wire.only();
    assert!(text.starts_with("POST /api/session/check HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("content-type: application/json\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\n{\"scope\":\"all\"}"), "{text}");
    for (method, body, key) in [
        ("HEAD", "", "verify_route.method"),
        ("GET", "{}", "verify_route.body"),
        ("POST", "{", "verify_route.body"),
    ] {
        settings.verify.method = method.to_owned();
        settings.verify.body = body.to_owned();
        assert_eq!(PlatformTarget::new(&settings).unwrap_err()[0].key, key, "{method} {body}");
    }
}

#[tokio::test]
async fn an_error_in_a_200_proves_nothing_and_is_passed_whole() {
    let body = r#"{"result":{"id":"17"},"error":{"code":9}}"#;
    let wire = ScriptedPlatform::start(always(ok(body)));
    let mut settings = settings(&wire.url());
    settings.envelope_pointers = Some(EnvelopeSettings {
        data: "/result".to_owned(),
        error: "/error".to_owned(),
        ..EnvelopeSettings::default()
    });
    let target = PlatformTarget::new(&settings).unwrap();

    let verdict =
        verify::verify(&upstream(), &target, PresentedAccount::of(&credentials()), SIGNING)
            .await
            .unwrap();

    assert_eq!(verdict, CredentialVerdict::Refused { status: 200 });
    assert!(target.has_envelope());
    assert_eq!(target.unwrap(body.as_bytes()), EnvelopeContent::Kept);
    let fine = r#"{"result":{ "id": 1.50 },"error":null}"#;
    let inner = EnvelopeContent::Inner(Bytes::from_static(br#"{ "id": 1.50 }"#));
    assert_eq!(target.unwrap(fine.as_bytes()), inner);
}

#[test]
fn no_account_sees_what_another_one_sends() {
    let mut settings = with_query("http://127.0.0.1:1", &[("key", "{token}")]);
    settings.proxy = Zeroizing::new("{proxy}".to_owned());
    settings.private_proxies = true;
    let target = PlatformTarget::new(&settings).unwrap();
    let account = |token: &str| {
        let proxy = format!("http://u:{token}@127.0.0.1:80");
        let json = serde_json::json!({"token": token, "proxy": proxy}).to_string();
        target.headers_of(&AccountCredentials::from_json(json.as_bytes()).unwrap()).unwrap()
    };

    let [ada, bob] = [account("ada-hush"), account("bob-hush")];

    for (headers, own, other) in [(&ada, "ada-hush", "bob-hush"), (&bob, "bob-hush", "ada-hush")] {
        assert!(!format!("{headers:?}").contains("hush"));
        let request = target.request(&NativeCall {
            call_id: &"call_1",
            method: Method::Get,
            path: "users/me",
            query: "",
            caller_headers: &HeaderMap::new(),
            body: Bytes::new(),
            account: headers,
            signing: SIGNING,
        });
        let uri = request.unwrap().uri().to_string();
        assert!(uri.contains(own) && !uri.contains(other), "{uri}");
    }
}
