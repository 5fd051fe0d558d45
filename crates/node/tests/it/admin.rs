//! The admin listener: readiness and metrics without a token, staff commands with the token.

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use test_service::{Client, Reply, TestApp, with_app};

async fn command(app: &TestApp, command: &Value) -> Reply {
    let token = app.running().admin_token().expose_secret().to_owned();
    app.admin().bearer(&token).post("/commands", command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_and_metrics_are_served_without_secrets() {
    with_app(async |app| {
        let (_customer, client, account) = app.ready("platform_alpha", 5).await;
        assert_eq!(client.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
        app.settled(&client).await;

        let ready = app.admin().get("/ready").await;
        let metrics = app.admin().get("/metrics").await;

        assert_eq!((ready.status, &ready.json()["ready"]), (200, &json!(true)), "{}", ready.text());
        assert_eq!(metrics.status, 200);
        let text = metrics.text();
        assert!(text.contains("# TYPE "), "{text}");
        let is_named = |line: &str| {
            line.is_empty() || line.starts_with(['#']) || line.starts_with("creator_gateway_")
        };
        assert!(text.split_once(' ').is_some_and(|(_, text)| text.lines().all(is_named)), "{text}");
        assert!(text.contains("platform_alpha"), "{text}");
        for secret in [
            client.get("/v1/whoami").await.json()["customer_id"].as_str().unwrap(),
            "session_token",
        ] {
            assert!(!text.contains(secret), "{text}");
        }
        app
    })
    .await;
}

/// A guess costs a try, whether of the token or of a key; requests without one, and right tokens,
/// cost nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_admin_tokens_are_limited_and_right_ones_are_not() {
    let app = TestApp::on_sqlite("[admin]\nwrong_tokens_per_minute = 3").await;
    let list = json!({"command": "list_permissions"});
    for _ in 0..10 {
        assert_eq!(command(&app, &list).await.status, 200);
        assert_eq!(app.admin().post("/commands", &list).await.status, 401);
    }

    let guess = async |path: &str| app.admin().bearer("k7").post(path, &list).await;
    for path in ["/commands", "/commands/operator", "/reconcile"] {
        assert_eq!(guess(path).await.status, 401, "{path}");
    }
    let refused = guess("/commands").await;

    assert_eq!((refused.status, refused.header("retry-after")), (429, "20"), "{}", refused.text());
    assert!(refused.text().contains("too many wrong admin tokens"), "{}", refused.text());
    let right = command(&app, &list).await;
    assert_eq!(right.status, 200, "no other program on this machine locks the operator out");
    assert_eq!(app.admin().get("/ready").await.status, 200, "probes need no token");
    app.advance_seconds(20);
    assert_eq!(guess("/commands").await.status, 401);
    app.end().await;
}

/// Load balancers and monitoring need no access to staff commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probe_listener_serves_only_probes() {
    let app = TestApp::on_sqlite("[admin]\nprobe_listen = \"127.0.0.1:0\"").await;
    let token = app.running().admin_token().expose_secret().to_owned();
    let probes = Client::new(app.running().probe_address().unwrap()).bearer(&token);

    for client in [&probes, &app.admin()] {
        assert_eq!(client.get("/health").await.json()["status"], "ok");
        assert_eq!(client.get("/ready").await.json()["ready"], true);
        assert!(client.get("/metrics").await.text().contains("creator_gateway_calls_total{"));
    }
    for path in ["/commands", "/reconcile"] {
        assert_eq!(probes.post(path, &json!({})).await.status, 404, "{path}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staff_commands_need_the_token() {
    let app = TestApp::on_sqlite("").await;
    let customer = app.customer(5).await;
    let grant = json!({
        "command": "grant_credits", "customer": customer.id, "credits": 100, "reference": "gift",
    });
    let admin = app.admin();

    for client in [
        admin.clone(),
        admin.bearer(""),
        admin.bearer("x"),
        admin.bearer(&customer.key),
        admin.with_key(&customer.key),
    ] {
        let reply = client.post("/commands", &grant).await;
        assert_eq!(reply.status, 401, "{}", reply.text());
    }
    assert_eq!(app.with_key(&customer.key).get("/v1/billing").await.json()["balance"], 5);
    app.end().await;
}

/// Without the token a caller does not learn the format of commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_is_checked_before_the_command_is_read() {
    let app = TestApp::on_sqlite("").await;

    let reply = app.admin().post("/commands", &json!({"command": "no_such_command"})).await;

    assert_eq!(reply.status, 401, "{}", reply.text());
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_public_listener_serves_no_admin_routes() {
    let app = TestApp::on_sqlite("").await;
    let token = app.running().admin_token().expose_secret().to_owned();
    let public: Client = app.anonymous().bearer(&token);

    for path in ["/ready", "/metrics", "/commands"] {
        assert_eq!(public.get(path).await.status, 404, "{path}");
    }
    let rotate = json!({"command": "rotate_master_key"});
    assert_eq!(public.post("/commands", &rotate).await.status, 404);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gift_may_expire() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let grant = |credits: i64, reference: &str, expires_at: Value| {
            json!({
                "command": "grant_credits", "customer": customer.id, "credits": credits, "reference": reference,
                "expires_at": expires_at,
            })
        };
        let (end, past) = ("2026-12-01T00:00:00.000000Z", "2026-11-21T11:59:59Z");

        let gift = command(&app, &grant(10, "one", json!(end))).await.json();
        let endless = command(&app, &grant(5, "two", Value::Null)).await.json();
        let again = command(&app, &grant(10, "one", json!(end))).await.json();
        for (credits, expires_at) in [(10, past), (-1, end), (10, "soon")] {
            let refused = command(&app, &grant(credits, "three", json!(expires_at))).await;
            assert_eq!(refused.status, 422, "{credits} until {expires_at}: {}", refused.text());
        }

        assert_eq!((&gift["expires_at"], &gift["balance"]), (&json!(end), &json!(10)));
        assert_eq!((&endless["expires_at"], &endless["balance"]), (&Value::Null, &json!(15)));
        assert_eq!((&again["applied"], &again["expires_at"]), (&json!(false), &Value::Null));
        let audit = client.get("/v1/audit?action=credits.adjusted").await.json();
        let ends = audit["entries"].as_array().unwrap().iter();
        let ends: Vec<_> = ends.filter_map(|entry| entry["details"].get("expires_at")).collect();
        assert_eq!(ends, [&json!(end)], "{audit}");
        app.advance_seconds(11 * 86_400);
        assert_eq!(client.get("/v1/billing").await.json()["balance"], 5);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staff_see_the_debt_beside_the_balance() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 3).await;
        assert_eq!(client.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
        app.settled(&client).await;
        let grant = async |credits: i64, reference: &str| {
            let grant = json!({
                "command": "grant_credits", "customer": customer.id, "credits": credits, "reference": reference,
            });
            let done = command(&app, &grant).await.json();
            (done["balance"].as_i64().unwrap(), done["debt"].as_i64().unwrap())
        };

        // One credit was spent, so only two are left to take.
        assert_eq!(grant(-3, "one").await, (0, 1));
        assert_eq!(grant(5, "two").await, (4, 0));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staff_give_and_take_credits_once_for_each_reference() {
    with_app(async |app| {
        let customer = app.customer(5).await;
        let grant = |credits: i64, reference: &str| {
            json!({"command": "grant_credits", "customer": customer.id, "credits": credits, "reference": reference})
        };

        let first = command(&app, &grant(10, "one")).await.json();
        let again = command(&app, &grant(10, "one")).await.json();
        let taken = command(&app, &grant(-3, "two")).await.json();
        let nothing = command(&app, &grant(0, "three")).await;

        assert_eq!((&first["applied"], &first["balance"]), (&json!(true), &json!(15)));
        assert_eq!((&again["applied"], &again["balance"]), (&json!(false), &json!(15)));
        assert_eq!((&taken["applied"], &taken["balance"]), (&json!(true), &json!(12)));
        assert_eq!(nothing.status, 422, "{}", nothing.text());
        let billing = app.with_key(&customer.key).get("/v1/billing").await.json();
        assert_eq!(billing["balance"], 12);
        let amounts: Vec<i64> =
            billing["ledger"].as_array().unwrap().iter().map(|entry| entry["amount"].as_i64().unwrap()).collect();
        assert_eq!(amounts.len(), 3, "{billing}");
        assert_eq!(amounts.iter().sum::<i64>(), 12);
        app
    })
    .await;
}

/// Repeating a reference with the same grant changes nothing. With another grant nothing is
/// recorded, and the error shows both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_used_for_another_grant_is_refused_with_both_amounts() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let end = "2026-12-01T00:00:00.000000Z";
        let grant = |credits: i64, reference: &str, expires_at: Option<&str>| {
            json!({
                "command": "grant_credits", "customer": customer.id, "credits": credits, "reference": reference,
                "expires_at": expires_at,
            })
        };
        // The removal takes from two lots: two ledger entries, one amount.
        for (credits, reference, expires_at) in
            [(10, "one", None), (10, "two", Some(end)), (-15, "three", None)]
        {
            let done = command(&app, &grant(credits, reference, expires_at)).await;
            assert_eq!(done.status, 200, "{}", done.text());
            let again = command(&app, &grant(credits, reference, expires_at)).await.json();
            assert_eq!(again["applied"], false, "{again}");
        }

        for (credits, reference, expires_at, booked, wanted) in [
            (11, "one", None, "10 credits", "11 credits".to_owned()),
            (-10, "one", None, "10 credits", "-10 credits".to_owned()),
            (10, "one", Some(end), "10 credits", format!("10 credits expiring at {end}")),
            (-14, "three", None, "-15 credits", "-14 credits".to_owned()),
        ] {
            let refused = command(&app, &grant(credits, reference, expires_at)).await;
            assert_eq!(refused.status, 409, "{}", refused.text());
            let error = refused.json()["error"].as_str().unwrap().to_owned();
            let both = format!("was already used for {booked}, not for {wanted};");
            assert!(error.contains(&both), "{error}");
        }
        // No entry of another reference takes this one.
        assert_eq!(command(&app, &grant(1, "three:1", None)).await.status, 200);
        assert_eq!(app.with_key(&customer.key).get("/v1/billing").await.json()["balance"], 6);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_grants_name_the_flag_and_record_nothing() {
    with_app(async |app| {
        let customer = app.customer(5).await;
        let grant = |credits: i64, reference: &str, expires_at: Option<&str>| {
            json!({
                "command": "grant_credits", "customer": customer.id, "credits": credits, "reference": reference,
                "expires_at": expires_at,
            })
        };
        let (long, far) = ("x".repeat(201), "9000-01-01T00:00:00Z");
        let cases = [
            (grant(i64::MAX, "r", None), "--credits"),
            (grant(i64::MIN, "r", None), "--credits"),
            (grant(1_000_000_000_001, "r", None), "--credits"),
            (grant(0, "r", None), "--credits"),
            (grant(1, "", None), "--reference"),
            (grant(1, "  ", None), "--reference"),
            (grant(1, "a\u{1b}[31mb", None), "--reference"),
            (grant(1, "a\nb", None), "--reference"),
            (grant(1, &long, None), "--reference"),
            (grant(1, "r", Some(far)), "--expires"),
            (
                json!({
                    "command": "create_customer", "email": "new@example.com", "name": "",
                    "credits": 1_000_000_000_001_i64,
                }),
                "--credits",
            ),
        ];

        for (wanted, flag) in cases {
            let refused = command(&app, &wanted).await;
            assert_eq!(refused.status, 422, "{wanted}: {}", refused.text());
            assert!(refused.json()["error"].as_str().unwrap().starts_with(flag), "{wanted}");
        }

        let billing = app.with_key(&customer.key).get("/v1/billing").await.json();
        assert_eq!(billing["balance"], 5);
        assert_eq!(billing["ledger"].as_array().unwrap().len(), 1, "{billing}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staff_refusals_give_the_reason() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let nobody = "cus_019ab3c4d5e67f8091a2b3c4d5e6f708";
        let taken = json!({
            "command": "create_customer", "email": "CUSTOMER0@example.com", "name": "", "credits": 0,
        });
        let grant = json!({
            "command": "grant_credits", "customer": nobody, "credits": 1, "reference": "r",
        });
        let disable = json!({"command": "disable_key", "key": customer.key_id});

        let taken = command(&app, &taken).await;
        let granted = command(&app, &grant).await;
        let disabled = command(&app, &disable).await;
        let disabled_again = command(&app, &disable).await;

        assert_eq!(taken.status, 409, "{}", taken.text());
        assert_eq!(granted.status, 404, "{}", granted.text());
        assert!(granted.text().contains(nobody));
        assert_eq!(disabled.status, 200, "{}", disabled.text());
        assert_eq!(disabled_again.status, 404, "{}", disabled_again.text());
        assert_eq!(app.with_key(&customer.key).get("/v1/whoami").await.code(), "invalid_key");
        app
    })
    .await;
}
