//! What all requests have in common: keys, headers, errors, idempotency, expansion, pages, search.

use serde_json::{Value, json};

use crate::checks::{
    DAY_S, NOW_S, assert_fields, assert_refused, count, ids, missing, pass, post_in,
};
use crate::kit::{Shop, id};
use crate::subscriptions::{price, subscribed};

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[tokio::test]
async fn an_unknown_key_is_refused_without_repeating_it() {
    let shop = Shop::open();
    let secret = "sk_test_wrongSecretKey1234";
    let header = format!("Authorization: Bearer {secret}\r\n");

    let wrong = shop.raw("GET /v1/customers", &header, "").await;
    let none = shop.raw("GET /v1/customers", "", "").await;
    let public = format!("Authorization: Bearer {}\r\n{FORM}", shop.settings.publishable_key);
    let browser = shop.raw("POST /v1/refunds", &public, "").await;

    assert_eq!((wrong.status, none.status, browser.status), (401, 401, 403));
    let message = wrong.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "Invalid API Key provided: sk_test_****1234");
    assert!(!wrong.text.contains(secret), "{}", wrong.text);
    assert_eq!(browser.json()["error"]["code"], "secret_key_required");
    for reply in [&wrong, &none, &browser] {
        assert_eq!(reply.json()["error"]["type"], "invalid_request_error");
        assert!(reply.header("request-id").unwrap().starts_with("req_"));
    }
    shop.close().await;
}

#[tokio::test]
async fn every_response_names_its_request_its_version_and_its_key() {
    let shop = Shop::open();
    let headers = "Idempotency-Key: k1\r\nStripe-Version: 2025-09-30.clover\r\n";

    let first = shop.post_with("customers", "", headers).await;
    let other = shop.get("customers").await;

    assert_eq!(first.header("stripe-version"), Some("2025-09-30.clover"));
    assert_eq!(first.header("idempotency-key"), Some("k1"));
    assert_eq!(first.header("original-request"), first.header("request-id"));
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(other.header("stripe-version"), Some("2026-03-25.dahlia"));
    assert_ne!(other.header("request-id"), first.header("request-id"));
    assert_eq!(other.header("idempotency-key"), None);
    shop.close().await;
}

#[tokio::test]
async fn an_error_has_exactly_the_fields_that_apply() {
    let shop = Shop::open();
    let fields =
        |error: &Value| -> Vec<String> { error.as_object().unwrap().keys().cloned().collect() };

    let unknown = shop.refused("customers", "colour=red", 400).await;
    let named = missing(&shop, "customers/cus_none", 404).await;
    let plain = missing(&shop, "unicorns", 404).await;

    let all = ["code", "doc_url", "message", "param", "request_log_url", "type"];
    assert_eq!(fields(&unknown), all);
    assert_eq!(fields(&named), all);
    assert_eq!(fields(&plain), ["message", "request_log_url", "type"]);
    assert_fields(
        &named,
        &json!({
            "code": "resource_missing", "param": "id", "message": "No such customer: 'cus_none'",
            "doc_url": "https://docs.stripe.com/error-codes/resource-missing",
        }),
    );
    shop.close().await;
}

#[tokio::test]
async fn a_key_is_bound_to_its_path_and_form_for_a_day() {
    let shop = Shop::open();
    let key = "Idempotency-Key: one\r\n";
    let first = shop.post_with("customers", "name=Ada", key).await;

    let form = shop.post_with("customers", "name=Bob", key).await;
    let path = shop.post_with("products", "name=Ada", key).await;
    pass(&shop, DAY_S - 1);
    let late = shop.post_with("customers", "name=Ada", key).await;
    pass(&shop, 1);
    let after = shop.post_with("customers", "name=Ada", key).await;

    for refused in [&form, &path] {
        assert_eq!(refused.status, 400, "{}", refused.text);
        let error = &refused.json()["error"];
        assert_eq!(error["type"], "idempotency_error");
        assert!(error["message"].as_str().unwrap().contains("'one'"), "{error}");
    }
    assert_eq!(late.text, first.text);
    assert_ne!(id(&after.json()), id(&first.json()));
    assert_eq!(count(&shop, "customers").await, 2);
    shop.close().await;
}

#[tokio::test]
async fn a_key_has_1_to_255_characters_and_is_ignored_on_reads() {
    let shop = Shop::open();
    for (length, status) in [(1, 200), (255, 200), (256, 400)] {
        let key = format!("Idempotency-Key: {}\r\n", "k".repeat(length));
        let reply = shop.post_with("customers", "", &key).await;
        assert_eq!(reply.status, status, "{length}: {}", reply.text);
    }
    let headers = format!("{}Idempotency-Key: k\r\n", shop.key());
    let before = shop.raw("GET /v1/customers", &headers, "").await;
    shop.done("customers", "").await;
    let after = shop.raw("GET /v1/customers", &headers, "").await;
    assert_ne!(before.text, after.text, "a read is never replayed");
    shop.close().await;
}

#[tokio::test]
async fn a_failure_before_the_work_can_be_repeated_with_its_key() {
    let shop = Shop::open();
    let key = "Idempotency-Key: retry\r\n";
    for (kind, status, code, retry) in [
        ("lock_timeout", 429, "lock_timeout", Some("true")),
        ("rate_limit", 429, "rate_limit", Some("false")),
        ("error_before", 500, "", None),
        ("unavailable", 503, "", None),
    ] {
        shop.control("switches", &json!({"kind": kind, "method": "POST"})).await;
        let failed = shop.post_with("customers", "name=Ada", key).await;

        assert_eq!(failed.status, status, "{kind}");
        let error = &failed.json()["error"];
        assert_eq!(error["code"].as_str().unwrap_or_default(), code, "{kind}");
        let wanted = if status == 429 { "invalid_request_error" } else { "api_error" };
        assert_eq!(error["type"], wanted, "{kind}");
        assert_eq!(failed.header("stripe-should-retry"), retry, "{kind}");
        assert_eq!(count(&shop, "customers").await, 0, "{kind}: nothing was carried out");
    }
    let done = shop.post_with("customers", "name=Ada", key).await;
    assert_eq!((done.status, done.header("idempotent-replayed")), (200, None));
    shop.close().await;
}

#[tokio::test]
async fn switches_choose_requests_by_method_path_and_number() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    let rule = json!({
        "kind": "unavailable", "method": "get", "path": "/v1/customers/{id}", "after": 1, "times": 2,
    });
    shop.control("switches", &rule).await;
    let path = format!("customers/{customer}");

    let mut statuses = Vec::new();
    for _ in 0..4 {
        assert_eq!(shop.get("customers").await.status, 200, "another path");
        assert_eq!(shop.post(&path, "name=Ada").await.status, 200, "another method");
        statuses.push(shop.get(&path).await.status);
    }

    assert_eq!(statuses, [200, 503, 503, 200]);
    shop.control("switches", &json!({"kind": "unavailable"})).await;
    let removed = shop.raw("DELETE /control/processor/switches", "", "").await;
    assert_eq!(removed.json()["removed"], 1);
    assert_eq!(shop.get("customers").await.status, 200);
    let unknown = shop.controlled("switches", &json!({"kind": "earthquake"})).await;
    assert_eq!((unknown.status, &unknown.json()["field"]), (400, &json!("kind")));
    shop.close().await;
}

#[tokio::test]
async fn ids_are_replaced_by_objects_on_request() {
    let shop = Shop::open();
    let studio = price(&shop, "Studio", 4900).await;
    let (customer, subscription) = subscribed(&shop, &studio).await;
    let path = format!("subscriptions/{}", id(&subscription));

    let plain = shop.read(&path).await;
    let expanded = format!("{path}?expand[]=customer&expand[]=latest_invoice.customer");
    let both = shop.read(&expanded).await;
    let listed = shop.read("subscriptions?expand[]=data.customer").await;
    let deep = "latest_invoice.payments.data.payment.payment_intent.latest_charge";

    assert_eq!(plain["customer"], customer.as_str());
    assert_fields(
        &both,
        &json!({
            "customer.email": "ada@example.com", "latest_invoice.object": "invoice",
            "latest_invoice.customer.id": customer,
        }),
    );
    assert_eq!(listed["data"][0]["customer"]["id"], customer.as_str());
    for (expand, message) in [
        (deep, "more than 4 levels"),
        ("status", "cannot be expanded"),
        ("unicorn", "cannot be expanded"),
        ("items.unicorn", "cannot be expanded"),
    ] {
        let error = missing(&shop, &format!("{path}?expand[]={expand}"), 400).await;
        assert_eq!(error["param"], "expand", "{expand}");
        assert!(error["message"].as_str().unwrap().contains(message), "{expand}: {error}");
    }
    let created = "amount=500&currency=usd&confirm=true&payment_method=pm_card_visa\
                   &payment_method_types[]=card&expand[]=unicorn";
    shop.refused("payment_intents", created, 400).await;
    assert_eq!(count(&shop, "payment_intents").await, 1, "only that of the subscription");
    shop.close().await;
}

#[tokio::test]
async fn pages_have_limits_cursors_and_times() {
    let shop = Shop::open();
    let mut made = Vec::new();
    for _ in 0..12 {
        made.insert(0, id(&shop.done("customers", "").await));
        pass(&shop, 1);
    }
    assert_eq!(ids(&shop, "customers").await, made[..10], "ten by default");
    assert_eq!(ids(&shop, "customers?limit=100").await, made);
    let oldest = made.last().unwrap();
    assert_eq!(count(&shop, &format!("customers?starting_after={oldest}")).await, 0);
    assert_eq!(count(&shop, &format!("customers?ending_before={}", made[0])).await, 0);
    let page = shop.read("customers?limit=12").await;
    let wanted = json!({"object": "list", "url": "/v1/customers", "has_more": false});
    assert_fields(&page, &wanted);
    for (filter, count_of) in [
        (format!("created[gt]={}", NOW_S + 9), 2),
        (format!("created[gte]={}", NOW_S + 9), 3),
        (format!("created[lt]={}", NOW_S + 2), 2),
        (format!("created[lte]={}", NOW_S + 2), 3),
        (format!("created[gt]={}&created[lt]={}", NOW_S + 2, NOW_S + 5), 2),
        (format!("created={}", NOW_S + 5), 1),
    ] {
        assert_eq!(
            count(&shop, &format!("customers?limit=100&{filter}")).await,
            count_of,
            "{filter}"
        );
    }
    for (query, param) in [
        ("limit=0".to_owned(), json!("limit")),
        ("limit=101".to_owned(), json!("limit")),
        ("limit=some".to_owned(), json!("limit")),
        ("starting_after=cus_none".to_owned(), json!("starting_after")),
        ("ending_before=cus_none".to_owned(), json!("ending_before")),
        ("page=2".to_owned(), json!("page")),
        (format!("starting_after={oldest}&ending_before={oldest}"), Value::Null),
    ] {
        let error = missing(&shop, &format!("customers?{query}"), 400).await;
        assert_eq!(error["param"], param, "{query}");
    }
    shop.close().await;
}

#[tokio::test]
async fn a_search_compares_numbers_texts_and_metadata_in_pages() {
    let shop = Shop::open();
    let mut made = Vec::new();
    for amount in [500, 700, 900] {
        let form = format!("amount={amount}&currency=usd&metadata[order.id]=o{amount}");
        made.push(id(&shop.done("payment_intents", &form).await));
    }
    let search = |query: &str| {
        let query = query.replace(' ', "%20").replace('>', "%3E").replace('<', "%3C");
        format!("payment_intents/search?query={query}")
    };
    for (query, places) in [
        ("amount>500", vec![2, 1]),
        ("amount<700", vec![0]),
        ("amount:700", vec![1]),
        ("-amount:700", vec![2, 0]),
        ("metadata['order.id']:'o900'", vec![2]),
        ("metadata['order.id']:'O900' AND currency:'USD'", vec![2]),
        ("status:'succeeded'", vec![]),
        ("amount>400 AND amount<900", vec![1, 0]),
    ] {
        let wanted: Vec<&String> = places.into_iter().map(|place: usize| &made[place]).collect();
        assert_eq!(ids(&shop, &search(query)).await.iter().collect::<Vec<_>>(), wanted, "{query}");
    }
    let first = shop.read(&format!("{}&limit=2", search("amount>0"))).await;
    assert_fields(&first, &json!({"object": "search_result", "has_more": true, "next_page": "2"}));
    let second = shop.read(&format!("{}&limit=2&page=2", search("amount>0"))).await;
    assert_fields(&second, &json!({"has_more": false, "next_page": null, "data.0.id": made[0]}));
    for query in ["amount", "amount:many", "colour:'red'", "metadata[a:'b'", ""] {
        assert_eq!(missing(&shop, &search(query), 400).await["param"], "query", "{query}");
    }
    let page = format!("{}&page=two", search("amount>0"));
    assert_eq!(missing(&shop, &page, 400).await["param"], "page");
    shop.close().await;
}

#[tokio::test]
async fn every_known_version_is_accepted_and_only_the_oldest_have_old_fields() {
    let shop = Shop::open();
    let plan = price(&shop, "Studio", 4900).await;
    let (_, subscription) = subscribed(&shop, &plan).await;
    let path = format!("subscriptions/{}", id(&subscription));
    for (version, is_old) in [
        ("2024-06-20", true),
        ("2024-12-18.acacia", true),
        ("2025-02-24.acacia", true),
        ("2025-03-31.basil", false),
        ("2025-06-30.basil", false),
        ("2025-09-30.clover", false),
        ("2026-03-25.dahlia", false),
        ("2026-06-24.dahlia", false),
    ] {
        let shown = post_in(&shop, version, &path, "expand[]=latest_invoice").await;
        let invoice = &shown["latest_invoice"];
        assert_eq!(shown.get("current_period_end").is_some(), is_old, "{version}");
        assert_eq!(shown.get("billing_mode").is_none(), is_old, "{version}");
        assert_eq!(invoice.get("paid").is_some(), is_old, "{version}");
        assert_eq!(invoice.get("parent").is_none(), is_old, "{version}");
        assert_eq!(invoice.get("payment_intent").is_some(), is_old, "{version}");
    }
    for version in ["2023-01-01", "2026-03-25", "dahlia"] {
        let header = format!("Stripe-Version: {version}\r\n");
        let reply = shop.post_with(&path, "", &header).await;
        assert_eq!(reply.status, 400, "{version}");
        assert!(reply.text.contains("Invalid Stripe API version"), "{}", reply.text);
    }
    shop.close().await;
}

#[tokio::test]
async fn the_log_of_requests_shows_what_was_sent_but_no_secrets() {
    let shop = Shop::open();
    shop.post_with("customers", "name=Ada&metadata[a]=b", "Idempotency-Key: k\r\n").await;
    shop.get("customers/cus_none").await;
    shop.get("payment_intents/pi_none?client_secret=hidden").await;

    let log = shop.raw("GET /control/processor/requests", "", "").await;

    assert!(!log.text.contains("hidden"), "{}", log.text);
    let log = log.json();
    assert_fields(
        &log["requests"][0],
        &json!({
            "method": "POST", "path": "/v1/customers", "idempotency_key": "k", "status": 200,
            "params": {"name": "Ada", "metadata[a]": "b"}, "at": NOW_S,
        }),
    );
    assert_fields(&log["requests"][1], &json!({"method": "GET", "status": 404}));
    shop.close().await;
}

#[tokio::test]
async fn a_reset_forgets_objects_events_switches_and_moved_time() {
    let shop = Shop::open();
    let customer = id(&shop.done("customers", "").await);
    shop.control("clock", &json!({"advance_days": 3})).await;
    shop.control("switches", &json!({"kind": "unavailable", "times": 9})).await;
    shop.control("rules", &json!({"tax_bp": 1900})).await;

    assert_eq!(shop.raw("POST /control/reset", "", "").await.status, 200);

    missing(&shop, &format!("customers/{customer}"), 404).await;
    assert_eq!(shop.events().await, [""; 0]);
    let rules = shop.raw("GET /control/processor/rules", "", "").await.json();
    assert_eq!(rules["tax_bp"], 0);
    assert_eq!(shop.done("customers", "").await["created"], NOW_S);
    let unknown = [("to=1", "parameter_unknown", "to")];
    assert_refused(&shop, "customers", &unknown).await;
    shop.close().await;
}
