//! The wire format: authentication, forms, versions, and the responses to repeated idempotency
//! keys.

use serde_json::json;

use crate::kit::{Shop, id};

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[tokio::test]
async fn only_the_secret_key_has_full_access() {
    let shop = Shop::open();
    let basic = "Authorization: Basic c2tfdGVzdF9zYW5kYm94U2VjcmV0S2V5Og==\r\n";
    let public = format!("Authorization: Bearer {}\r\n", shop.settings.publishable_key);

    assert_eq!(shop.raw("GET /v1/customers", "", "").await.status, 401);
    assert_eq!(
        shop.raw("GET /v1/customers", "Authorization: Bearer sk_test_wrong\r\n", "").await.status,
        401
    );
    assert_eq!(shop.raw("GET /v1/customers", &public, "").await.status, 403);
    assert_eq!(shop.raw("GET /v1/customers", basic, "").await.status, 200);
    let wrong = shop.raw("GET /v1/customers", "Authorization: Bearer sk_test_wrong\r\n", "").await;
    assert_eq!(wrong.json()["error"]["type"], "invalid_request_error");
    assert!(wrong.header("request-id").unwrap().starts_with("req_"), "{wrong:?}");
    shop.close().await;
}

#[tokio::test]
async fn a_body_must_be_a_form_with_its_content_type() {
    let shop = Shop::open();
    let json_type = format!("{}Content-Type: application/json\r\n", shop.key());

    let no_type = shop.raw("POST /v1/customers", &shop.key(), "email=ada@example.com").await;
    let as_json =
        shop.raw("POST /v1/customers", &json_type, r#"{"email":"ada@example.com"}"#).await;
    let as_form = shop.raw("POST /v1/customers", &format!("{}{FORM}", shop.key()), "").await;

    assert_eq!((no_type.status, as_json.status, as_form.status), (400, 400, 200));
    assert!(as_json.json()["error"]["message"].as_str().unwrap().contains("POST content type"));
    shop.close().await;
}

#[tokio::test]
async fn unknown_requests_are_refused_with_the_processors_messages() {
    let shop = Shop::open();

    let url = shop.get("unicorns").await;
    assert_eq!(url.status, 404);
    assert!(
        url.json()["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("Unrecognized request URL (GET: /v1/unicorns)")
    );
    assert_eq!(shop.post("customers/cus_1/unicorns", "").await.status, 404);
    assert_eq!(shop.delete("payment_intents/pi_1").await.status, 404);
    let param = shop.refused("customers", "colour=red", 400).await;
    assert_eq!((&param["code"], &param["param"]), (&json!("parameter_unknown"), &json!("colour")));
    let missing = shop.refused("payment_intents", "currency=usd", 400).await;
    assert_eq!(
        (&missing["code"], &missing["param"]),
        (&json!("parameter_missing"), &json!("amount"))
    );
    let object = shop.get("customers/cus_none").await;
    assert_eq!((object.status, &object.json()["error"]["code"]), (404, &json!("resource_missing")));
    let named =
        shop.refused("payment_intents", "amount=500&currency=usd&customer=cus_none", 400).await;
    assert_eq!((&named["code"], &named["param"]), (&json!("resource_missing"), &json!("customer")));
    let version = shop.post_with("customers", "", "Stripe-Version: 1999-01-01\r\n").await;
    assert_eq!(version.status, 400, "{version:?}");
    let expand = shop.get("customers?expand[]=data.unicorn").await;
    assert_eq!((expand.status, &expand.json()["error"]["type"]), (200, &serde_json::Value::Null));
    shop.done("customers", "").await;
    assert_eq!(shop.get("customers?expand[]=data.unicorn").await.status, 400);
    shop.close().await;
}

#[tokio::test]
async fn a_repeated_key_gets_the_first_response() {
    let shop = Shop::open();
    let key = "Idempotency-Key: cus:1\r\n";

    let first = shop.post_with("customers", "email=ada@example.com&name=Ada", key).await;
    let again = shop.post_with("customers", "name=Ada&email=ada@example.com", key).await;
    let other = shop.post_with("customers", "email=bob@example.com", key).await;

    assert_eq!(again.text, first.text);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header("original-request"), first.header("request-id"));
    assert_eq!((other.status, &other.json()["error"]["type"]), (400, &json!("idempotency_error")));
    assert_eq!(shop.read("customers").await["data"].as_array().unwrap().len(), 1);
    // After a day the key has expired.
    shop.clock.advance_ms(25 * 3_600_000);
    let later = shop.post_with("customers", "email=bob@example.com", key).await;
    assert_eq!(later.status, 200, "{later:?}");
    shop.close().await;
}

#[tokio::test]
async fn a_key_keeps_a_decline_but_not_a_refused_request() {
    let shop = Shop::open();
    let key = "Idempotency-Key: k\r\n";

    let wrong = shop.post_with("payment_intents", "amount=1&currency=usd", key).await;
    let form = "amount=500&currency=usd&confirm=true&payment_method=pm_card_chargeCustomerFail&payment_method_types[]=card";
    let declined = shop.post_with("payment_intents", form, key).await;
    let again = shop.post_with("payment_intents", form, key).await;

    assert_eq!((wrong.status, declined.status, again.status), (400, 402, 402));
    assert_eq!(again.text, declined.text);
    assert_eq!(shop.read("payment_intents").await["data"].as_array().unwrap().len(), 1);
    shop.close().await;
}

#[tokio::test]
async fn a_failure_after_the_work_keeps_its_500_and_its_payment() {
    let shop = Shop::open();
    let form = "amount=500&currency=usd&confirm=true&payment_method=pm_card_visa&payment_method_types[]=card";
    shop.control("switches", &json!({"kind": "error_after", "path": "payment_intents"})).await;

    let broken = shop.post_with("payment_intents", form, "Idempotency-Key: k\r\n").await;
    let again = shop.post_with("payment_intents", form, "Idempotency-Key: k\r\n").await;

    assert_eq!((broken.status, again.status), (500, 500));
    assert_eq!(again.json()["error"]["type"], "api_error");
    let intents = shop.read("payment_intents").await;
    assert_eq!(intents["data"][0]["status"], "succeeded");
    assert_eq!(intents["data"].as_array().unwrap().len(), 1);
    shop.close().await;
}

#[tokio::test]
async fn keys_and_objects_in_use_are_refused_as_busy() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    shop.control("switches", &json!({"kind": "delay", "ms": 1500, "method": "POST"})).await;
    let path = format!("customers/{customer}");

    let (first, (second, third)) =
        tokio::join!(shop.post_with(&path, "name=Ada", "Idempotency-Key: k\r\n"), async {
            // The first request has arrived once it is no longer in the list of switches.
            while shop.raw("GET /control/processor/switches", "", "").await.json()["switches"]
                != json!([])
            {}
            tokio::join!(
                shop.post_with(&path, "name=Ada", "Idempotency-Key: k\r\n"),
                shop.post_with(&path, "name=Bob", "Idempotency-Key: other\r\n"),
            )
        });

    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(
        (second.status, &second.json()["error"]["code"]),
        (409, &json!("idempotency_key_in_use"))
    );
    assert_eq!((third.status, &third.json()["error"]["code"]), (429, &json!("lock_timeout")));
    assert_eq!(third.header("stripe-should-retry"), Some("true"));
    shop.close().await;
}

#[tokio::test]
async fn lists_page_from_the_newest() {
    let shop = Shop::open();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.insert(0, id(&shop.done("customers", &format!("name={number}")).await));
        shop.clock.advance_ms(10_000);
    }

    let first = shop.read("customers?limit=2").await;
    let second = shop.read(&format!("customers?limit=2&starting_after={}", ids[1])).await;
    let last = shop.read(&format!("customers?limit=2&starting_after={}", ids[3])).await;
    let back = shop.read(&format!("customers?limit=2&ending_before={}", ids[4])).await;
    let recent =
        shop.read(&format!("customers?created[gte]={}", crate::kit::NOW_MS / 1000 + 30)).await;

    let shown = |page: &serde_json::Value| {
        let found: Vec<_> = page["data"].as_array().unwrap().iter().map(id).collect();
        (found, page["has_more"].as_bool().unwrap())
    };
    assert_eq!(shown(&first), (ids[0..2].to_vec(), true));
    assert_eq!(shown(&second), (ids[2..4].to_vec(), true));
    assert_eq!(shown(&last), (ids[4..].to_vec(), false));
    assert_eq!(shown(&back), (ids[2..4].to_vec(), true));
    assert_eq!(shown(&recent).0, ids[0..2].to_vec());
    assert_eq!(shop.get("customers?limit=101").await.status, 400);
    assert_eq!(shop.get("customers?starting_after=cus_none").await.status, 400);
    shop.close().await;
}

#[tokio::test]
async fn everything_survives_a_restart_but_not_a_reset() {
    let folder = tempfile::tempdir().unwrap();
    let started = || {
        Shop::on_folder(folder.path(), simulator_kit::SimulatorClock::manual(crate::kit::NOW_MS))
    };
    let shop = started();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let before = shop.read(&format!("customers/{customer}")).await;
    let key = "Idempotency-Key: k\r\n";
    let first = shop.post_with("customers", "name=kept", key).await;
    shop.control("clock", &json!({"advance_days": 3})).await;
    shop.close().await;

    let again = started();
    assert_eq!(again.read(&format!("customers/{customer}")).await, before);
    assert_eq!(
        again.read(&format!("customers/{customer}/payment_methods")).await["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let made = again.done("customers", "").await;
    assert_eq!(made["created"], crate::kit::NOW_MS / 1000 + 3 * 86_400, "the clock stays ahead");
    // The key of three days ago has expired, but its result is kept.
    let replayed = again.post_with("customers", "name=kept", key).await;
    assert_ne!(id(&replayed.json()), id(&first.json()));
    assert_eq!(again.raw("POST /control/reset", "", "").await.status, 200);
    assert_eq!(again.get(&format!("customers/{customer}")).await.status, 404);
    again.close().await;
}

/// A caller without a response repeats the request with the same key, and pays once.
#[tokio::test]
async fn a_response_lost_after_the_charge_is_returned_again_for_its_key() {
    let shop = Shop::open();
    let form = "amount=500&currency=usd&confirm=true&payment_method=pm_card_visa&payment_method_types[]=card";
    for (kind, key) in
        [("hang_after", "Idempotency-Key: a\r\n"), ("close_after", "Idempotency-Key: b\r\n")]
    {
        shop.control(
            "switches",
            &json!({"kind": kind, "path": "payment_intents", "method": "POST"}),
        )
        .await;
        let before = shop.read("charges").await["data"].as_array().unwrap().len();
        let charged = async {
            while shop.read("charges").await["data"].as_array().unwrap().len() == before {}
        };
        let lost = tokio::select! {
            lost = shop.post_with("payment_intents", form, key) => Some(lost.status),
            () = charged => None,
        };

        let again = shop.post_with("payment_intents", form, key).await;

        assert!(matches!(lost, None | Some(0)), "{kind}: {lost:?}");
        assert_eq!(
            (again.status, again.header("idempotent-replayed")),
            (200, Some("true")),
            "{kind}"
        );
        let made = shop.read("charges").await["data"].as_array().unwrap().len();
        assert_eq!(made, before + 1, "{kind}");
    }
    shop.close().await;
}

/// The stand-in script makes cross-origin requests, which browsers allow only with CORS headers.
#[tokio::test]
async fn cross_origin_requests_are_allowed_with_the_publishable_key() {
    let shop = Shop::open();

    let asked = shop
        .raw("OPTIONS /v1/payment_intents/pi_1/confirm", "Origin: http://shop.example\r\n", "")
        .await;
    let script = shop.raw("GET /processor/js", "", "").await;

    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, Some("*")));
    assert!(
        script.text.contains(&format!("const base = \"{}\"", shop.processor.url())),
        "{script:?}"
    );
    shop.close().await;
}

#[tokio::test]
async fn prices_are_found_by_metadata() {
    let shop = Shop::open();
    let form = "currency=usd&unit_amount=4900&recurring[interval]=month&product_data[name]=Studio&lookup_key=studio&metadata[plan_id]=plan_studio&metadata[credits]=";
    let first = shop.done("prices", &form.replace("credits]=", "credits]=30000")).await;
    let other = form.replace("credits]=", "credits]=40000").replace("=studio&", "=studio2&");
    let second = shop.done("prices", &other).await;
    let query = |text: &str| format!("prices/search?query={}", text.replace(' ', "+"));

    let both = shop.read(&query("metadata['plan_id']:'plan_studio' AND active:'true'")).await;
    let one = shop
        .read(&query("metadata['plan_id']:'plan_studio' AND metadata['credits']:'30000'"))
        .await;
    let key = shop.read(&query("lookup_key:'studio2'")).await;

    assert_eq!(both["data"].as_array().unwrap().len(), 2);
    assert_eq!((one["data"].as_array().unwrap().len(), &one["data"][0]), (1, &first));
    assert_eq!(key["data"][0]["id"], second["id"]);
    assert_eq!(shop.get(&query("status:'x'")).await.status, 400);
    shop.close().await;
}

#[tokio::test]
async fn rate_limit_responses_can_have_retry_after() {
    let shop = Shop::open();
    shop.control("switches", &json!({"kind": "rate_limit", "retry_after_s": 7})).await;
    shop.control("switches", &json!({"kind": "rate_limit"})).await;

    let (said, not_said) = (shop.get("customers").await, shop.get("customers").await);

    assert_eq!((said.status, said.header("retry-after")), (429, Some("7")));
    assert_eq!((not_said.status, not_said.header("retry-after")), (429, None));
    assert_eq!(shop.get("customers").await.status, 200);
    shop.close().await;
}

#[tokio::test]
async fn too_many_requests_in_a_second_are_refused_and_not_carried_out() {
    let shop = Shop::open();
    shop.control("rules", &json!({"requests_per_s": 3})).await;
    shop.clock.advance_ms(1_000);

    for _ in 0..3 {
        assert_eq!(shop.post("customers", "").await.status, 200);
    }
    let refused = shop.refused("customers", "", 429).await;

    assert_eq!(refused["code"], "rate_limit");
    shop.clock.advance_ms(1_000);
    assert_eq!(shop.read("customers?limit=100").await["data"].as_array().unwrap().len(), 3);
    shop.close().await;
}
