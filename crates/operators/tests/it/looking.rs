//! Listing and finding customers and calls.

use serde_json::{Value, json};

use super::{asked, done, shown};
use test_service::with_app;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customers_are_listed_by_state_and_address_page_by_page() {
    with_app(async |app| {
        let mut ids = Vec::new();
        for _ in 0..5 {
            app.advance_seconds(1);
            ids.insert(0, app.customer(0).await.id);
        }
        let suspend =
            json!({"command": "suspend_customer", "customer": ids[0], "reason": "a test"});
        done(&app, suspend).await;
        let list = async |filter: Value| {
            let mut command = json!({"command": "list_customers"});
            command.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
            let page = done(&app, command).await;
            let found = page["customers"].as_array().unwrap().iter();
            let found: Vec<String> =
                found.map(|one| one["customer_id"].as_str().unwrap().to_owned()).collect();
            (found, page["next_cursor"].clone())
        };

        assert_eq!(list(json!({})).await, (ids.clone(), Value::Null));
        let (first, cursor) = list(json!({"limit": 2})).await;
        assert_eq!((first, &cursor), (ids[..2].to_vec(), &json!(ids[1])));
        let (second, cursor) = list(json!({"limit": 2, "cursor": cursor})).await;
        assert_eq!((second, &cursor), (ids[2..4].to_vec(), &json!(ids[3])));
        assert_eq!(list(json!({"limit": 2, "cursor": cursor})).await.0, ids[4..]);
        assert_eq!(list(json!({"state": "suspended"})).await.0, ids[..1]);
        assert_eq!(list(json!({"state": "active"})).await.0, ids[1..]);
        assert_eq!(list(json!({"text": "CUSTOMER3@"})).await.0, ids[1..2]);
        assert_eq!(list(json!({"plan": "none"})).await.0.len(), 5);
        assert_eq!(list(json!({"plan": "plan_small"})).await.0.len(), 0);
        assert_eq!(list(json!({"in_debt": true})).await.0.len(), 0);
        for wrong in [json!({"limit": 0}), json!({"limit": 501}), json!({"state": "lost"})] {
            let mut command = json!({"command": "list_customers"});
            command.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
            assert_eq!(asked(&app, &command).await.status, 422, "{wrong}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_is_found_by_anything_of_its() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 5).await;
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, "4242424242424242").await;
        app.deliver().await;
        let call = client.get(&format!("/v1/{account}/native/users/me")).await;
        app.settled(&client).await;
        let profile = shown(&app, &customer.id).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();

        for (given, matched) in [
            (customer.id.clone(), "customer"),
            ("Customer0@example".to_owned(), "email"),
            (customer.key_id.clone(), "key"),
            (text(&profile["keys"][0]["prefix"]), "key_prefix"),
            (account.clone(), "account"),
            (text(&profile["processor_customer"]), "processor_customer"),
            (begun.order.clone(), "order"),
            (begun.session.clone(), "checkout"),
            (text(&profile["orders"][0]["payment"]), "payment"),
            (call.header("x-request-id").to_owned(), "request"),
        ] {
            let found = done(&app, json!({"command": "find_customers", "text": given})).await;
            let matches = found["matches"].as_array().unwrap();
            let is_meant =
                |one: &Value| one["matched"] == matched && one["customer_id"] == customer.id;
            assert!(matches.iter().any(is_meant), "{given}: {found}");
        }
        let nothing = done(&app, json!({"command": "find_customers", "text": "nobody"})).await;
        assert_eq!(nothing["matches"], json!([]));
        let short = json!({"command": "find_customers", "text": "ab"});
        assert_eq!(asked(&app, &short).await.status, 422);
        app
    })
    .await;
}

/// A caller's own request id, and an `Idempotency-Key`, name a call as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_explained_by_what_its_caller_knows() {
    with_app(async |app| {
        let (customer, client, account) = app.ready("platform_alpha", 10).await;
        let path = format!("/v1/{account}/native/chats/mark-as-read");
        let caller = client.with("x-request-id", "order-17").with("idempotency-key", "once-17");
        let written = caller.post(&path, &json!({})).await;
        assert_eq!(written.status, 200, "{}", written.text());
        app.settled(&client).await;

        let of = |named: Value| {
            let mut command = json!({"command": "show_call"});
            command.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
            command
        };
        let by_request = done(&app, of(json!({"request": "order-17"}))).await;
        let with_customer = json!({"request": "order-17", "customer": customer.id});
        assert_eq!(done(&app, of(with_customer)).await, by_request);
        let by_key = json!({"idempotency_key": "once-17", "customer": "customer0@example.com"});
        assert_eq!(done(&app, of(by_key)).await, by_request);
        let call = &by_request["calls"][0];
        assert_eq!((&call["has_idempotency_key"], &call["credits"]), (&json!(true), &json!(2)));
        assert_eq!(done(&app, of(json!({"request": call["call_id"]}))).await, by_request);
        let other = app.customer(0).await;
        let of_other = json!({"request": "order-17", "customer": other.id});
        assert_eq!(asked(&app, &of(of_other)).await.status, 404);
        for unclear in [json!({}), json!({"idempotency_key": "once-17"})] {
            assert_eq!(asked(&app, &of(unclear)).await.status, 422);
        }
        app
    })
    .await;
}
