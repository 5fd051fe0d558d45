//! Platforms drawn from seeds, none of which the service was written for: declared in a
//! configuration and a catalogue file, and played by a stub that checks every request on its own.
//!
//! A failure names its seed. To play another one, add it to [`SEEDS`] and a test with [`plays`].

mod drawn;
mod proxy;
mod stub;
mod written;

use serde_json::{Map, Value, json};

use self::drawn::{EnvelopeQuirk, KeyQuirk, PartQuirk, ProxyQuirk, Quirks};
use self::proxy::TestProxy;
use self::stub::{NOW_S, PAGES, REFRESH_TOKEN, Stub, TOKEN, USER};
use self::written::Addresses;
use test_service::TestApp;
use test_service::client::Client;

const CREDITS: i64 = 100;

/// The seeds that are played each time.
const SEEDS: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

macro_rules! plays {
    ($($name:ident: $seed:literal,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            assert!(SEEDS.contains(&$seed));
            Box::pin(play($seed)).await;
        }
    )*};
}

plays! {
    a_foreign_platform_of_seed_1_is_served: 1,
    a_foreign_platform_of_seed_2_is_served: 2,
    a_foreign_platform_of_seed_3_is_served: 3,
    a_foreign_platform_of_seed_4_is_served: 4,
    a_foreign_platform_of_seed_5_is_served: 5,
    a_foreign_platform_of_seed_6_is_served: 6,
    a_foreign_platform_of_seed_7_is_served: 7,
    a_foreign_platform_of_seed_8_is_served: 8,
    a_foreign_platform_of_seed_9_is_served: 9,
    a_foreign_platform_of_seed_10_is_served: 10,
    a_foreign_platform_of_seed_11_is_served: 11,
    a_foreign_platform_of_seed_12_is_served: 12,
}

/// Plays one seed on the database that the test is about.
async fn play(seed: u64) {
    let quirks = Quirks::draw(seed);
    let database = store::testing::store().await;
    let stub = Stub::start(&quirks).await;
    let fallback = || ProxyQuirk {
        is_socks: false,
        user: String::new(),
        password: String::new(),
        credential: None,
    };
    let proxy = TestProxy::start(quirks.proxy.clone().unwrap_or_else(fallback)).await;
    let addresses = Addresses {
        first: stub.first.address.to_string(),
        second: stub.second.address.to_string(),
        proxy: proxy.address.clone(),
    };
    stub.is_at(&addresses);
    let folder = tempfile::tempdir().unwrap();
    written::write_files(&quirks, folder.path());
    let configuration = written::configuration(&quirks, &addresses, folder.path());
    let app = TestApp::start(database, &configuration).await;
    let customer = app.customer(CREDITS).await;
    let client = app.with_key(&customer.key);

    let spent = calls(&quirks, &addresses, &client, &stub, &configuration).await;

    app.settled(&client).await;
    let balance = client.get("/v1/billing").await.json()["balance"].clone();
    assert_eq!(balance, CREDITS - spent, "seed {seed}\n{configuration}");
    let carried = if quirks.proxy.is_some() { stub.connections() } else { 0 };
    assert_eq!(proxy.tunnels(), carried, "seed {seed}\n{configuration}");
    app.end().await;
}

/// Connects an account and makes every kind of call. Returns what they cost.
async fn calls(
    quirks: &Quirks,
    addresses: &Addresses,
    client: &Client,
    stub: &Stub,
    configuration: &str,
) -> i64 {
    let check = |what: &str, is: Value, expected: Value| {
        let (seed, problems) = (quirks.seed, stub.problems());
        assert_eq!(is, expected, "seed {seed}, {what}: {problems:#?}\n{configuration}");
    };
    let connected = client.post("/v1/connect/import", &import(quirks, addresses)).await;
    check(
        "import",
        json!([connected.status, connected.text().contains(TOKEN)]),
        json!([201, false]),
    );

    let read = client.get("/v1/eve/native/things/7?a=%20b&c").await;
    check(
        "read",
        json!([read.status, read.json()]),
        json!([200, {"thing": 7, "query": "a=%20b&c"}]),
    );
    check("route", json!(read.header("x-route")), json!("GET things/{id}"));
    let write = client.post("/v1/eve/native/things", &json!({"name": "n"})).await;
    check("write", json!([write.status, write.json()]), json!([200, {"made": {"name": "n"}}]));
    let mut spent = 1 + 2;

    let mut next = Some("/v1/eve/native/list".to_owned());
    let mut rows = Vec::new();
    while let Some(path) = next {
        let page = client.get(&path).await;
        check("page", json!(page.status), json!(200));
        rows.extend(page.json().as_array().unwrap().clone());
        next = page.headers.get("link").map(|link| {
            let target = link.to_str().unwrap().split_once('>').unwrap().0.to_owned();
            target.trim_start_matches('<').to_owned()
        });
        spent += 1;
    }
    let expected: Vec<Value> = (1..=PAGES).map(|page| json!({"row": page})).collect();
    check("list", json!(rows), json!(expected));

    let broken = client.get("/v1/eve/native/broken").await;
    let (status, kept) = match quirks.envelope {
        EnvelopeQuirk::None => (422, None),
        EnvelopeQuirk::Response | EnvelopeQuirk::Pointers { .. } => (200, Some("kept")),
    };
    let has_envelope = broken.headers.get("x-envelope").map(|value| value.to_str().unwrap());
    check("error", json!([broken.status, has_envelope]), json!([status, kept]));
    check("error", broken.json()["error"].clone(), stub_error(quirks, &broken.json()));
    spent += 1;

    if let Some((path, _)) = &quirks.second_host {
        let far = client.get(&format!("/v1/eve/native/{path}/far")).await;
        check("second host", json!([far.status, far.json()]), json!([200, {"far": true}]));
        spent += 1;
    }
    if let Some(name) = &quirks.query {
        let taken = client.get(&format!("/v1/eve/native/things/7?{name}=mine")).await;
        check("reserved parameter", json!(taken.status), json!(422));
    }
    check("all requests", json!(stub.problems()), json!([]));
    spent
}

/// What `error` is in the body of the error, where the envelope names it so.
fn stub_error(quirks: &Quirks, body: &Value) -> Value {
    match &quirks.envelope {
        EnvelopeQuirk::None | EnvelopeQuirk::Response => json!("drawn"),
        EnvelopeQuirk::Pointers { error, .. } => {
            assert_eq!(body[error], "drawn", "seed {}", quirks.seed);
            Value::Null
        }
    }
}

fn import(quirks: &Quirks, addresses: &Addresses) -> Value {
    let mut auth = Map::new();
    auth.insert(quirks.token.clone(), json!(TOKEN));
    auth.insert(quirks.user.clone(), json!(USER));
    if quirks.oauth.is_some() {
        auth.insert("refresh_token".to_owned(), json!(REFRESH_TOKEN));
        // Within the minute before which tokens are refreshed.
        auth.insert("expires_at".to_owned(), json!(NOW_S + 30));
    }
    if let Some(name) = quirks.proxy.as_ref().and_then(|proxy| proxy.credential.clone()) {
        auth.insert(name, json!(written::proxy_url(quirks, addresses)));
    }
    json!({"creator_id": "eve", "platform": quirks.name, "auth": auth})
}

/// What is drawn has to be there: otherwise the seeds above prove less than they seem to.
#[test]
fn the_seeds_have_every_quirk() {
    let all: Vec<Quirks> = SEEDS.into_iter().map(Quirks::draw).collect();
    let mut missing = Vec::new();
    let mut some = |what: &str, has: &dyn Fn(&Quirks) -> bool| {
        if !all.iter().any(has) {
            missing.push(what.to_owned());
        }
    };
    let proxy = |quirks: &Quirks, is_socks: bool, is_own: bool| {
        quirks
            .proxy
            .as_ref()
            .is_some_and(|it| it.is_socks == is_socks && it.credential.is_some() == is_own)
    };
    some("a CONNECT proxy", &|it| proxy(it, false, true) || proxy(it, false, false));
    some("a SOCKS5 proxy", &|it| proxy(it, true, true) || proxy(it, true, false));
    some("a proxy of each account", &|it| proxy(it, true, true) || proxy(it, false, true));
    some("a proxy of all", &|it| proxy(it, true, false) || proxy(it, false, false));
    some("no proxy", &|it| it.proxy.is_none());
    some("a second host", &|it| it.second_host.is_some());
    some("a parameter", &|it| it.query.is_some());
    some("cookies", &|it| it.cookies);
    some("cookies with a refresh", &|it| it.cookies && it.oauth.is_some());
    some("a version", &|it| it.version_header.is_some());
    some("a prefix", &|it| !it.prefix.is_empty());
    some("no envelope", &|it| matches!(it.envelope, EnvelopeQuirk::None));
    some("the built-in envelope", &|it| matches!(it.envelope, EnvelopeQuirk::Response));
    some("an envelope of pointers", &|it| matches!(it.envelope, EnvelopeQuirk::Pointers { .. }));
    for kind in ["text/json", "+json"] {
        some(&format!("an envelope in {kind}"), &|it| {
            !matches!(it.envelope, EnvelopeQuirk::None) && it.content_type.contains(kind)
        });
    }
    some("a POST that verifies", &|it| it.verify.is_post && it.verify.names_user);
    some("a client in a header", &|it| it.oauth == Some(true));
    some("a client in the form", &|it| it.oauth == Some(false));
    for algorithm in drawn::ALGORITHMS {
        some(algorithm, &|it| it.signing.as_ref().is_some_and(|it| it.algorithm == algorithm));
    }
    for part in [PartQuirk::Body, PartQuirk::Value, PartQuirk::Random, PartQuirk::Token] {
        some(&format!("{part:?}"), &|it| {
            it.signing.as_ref().is_some_and(|it| it.parts.contains(&part))
        });
    }
    some("a hash", &|it| it.signing.as_ref().is_some_and(|it| matches!(it.key, KeyQuirk::None)));
    some("a fixed key", &|it| {
        it.signing.as_ref().is_some_and(|it| matches!(it.key, KeyQuirk::Fixed(_)))
    });
    some("a derived key", &|it| {
        it.signing.as_ref().is_some_and(|it| matches!(it.key, KeyQuirk::Derived(_)))
    });
    assert!(missing.is_empty(), "no seed has {missing:?}");
}
