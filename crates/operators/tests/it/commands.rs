//! Commands that ask for too much, too little or the wrong thing: what is wrong is named, and
//! nothing changes; and previews, which change nothing at all.

use serde_json::{Value, json};
use test_service::processor::{PACK_CREDITS, balance};
use test_service::subscriber::GOOD_CARD;
use test_service::{Client, TestApp, with_app};

use super::{asked, assert_clean, audited, done, shown};

const NOBODY: &str = "cus_019ab3c4d5e67f8091a2b3c4d5e6f708";

/// The command with further members.
fn with(command: &str, more: &Value) -> Value {
    let mut whole = json!({"command": command});
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    whole
}

/// A customer that has paid for a pack: its id, its client and its order.
async fn paid(app: &TestApp) -> (String, Client, String) {
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);
    let begun = app.begin_checkout(&client).await;
    app.pay_page(&begun.session, GOOD_CARD).await;
    app.deliver().await;
    (customer.id, client, begun.order)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_command_names_what_is_wrong() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let id = customer.id.as_str();
        for (command, named) in [
            (json!({}), "command"),
            (json!({"command": "erase_everybody"}), "erase_everybody"),
            (with("show_customer", &json!({})), "customer"),
            (with("show_customer", &json!({"customer": "not an id"})), "customer"),
            (with("show_customer", &json!({"customer": id, "dry_run": true})), "dry_run"),
            (with("suspend_customer", &json!({"customer": id})), "reason"),
            (with("suspend_customer", &json!({"customer": id, "reason": 7})), "reason"),
            (with("refund_order", &json!({"order": "ord_1"})), "order"),
            (with("list_customers", &json!({"limit": "ten"})), "limit"),
            (with("list_customers", &json!({"cursor": "cus_1"})), "cursor"),
            (with("settle_unmatched", &json!({"object": "pi_1"})), "note"),
            (with("list_unmatched", &json!({"limit": 501})), "limit"),
            (with("liability", &json!({"customer": id})), "customer"),
        ] {
            let refused = asked(&app, &command).await;

            assert_eq!(refused.status, 422, "{command}: {}", refused.text());
            assert!(refused.text().contains(named), "{command}: {}", refused.text());
        }
        assert_eq!(audited(&app, id).await, [], "nothing was done to the customer");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_that_there_is_not_is_not_found_by_any_command() {
    with_app(async |app| {
        for command in [
            with("show_customer", &json!({"customer": NOBODY})),
            with("show_customer", &json!({"customer": "nobody@example.com"})),
            with("resume_customer", &json!({"customer": NOBODY})),
            with("end_sessions", &json!({"customer": NOBODY})),
            with("erase_customer", &json!({"customer": NOBODY})),
            with("erase_customer", &json!({"customer": NOBODY, "dry_run": true})),
            with("show_call", &json!({"request": "req-1", "customer": NOBODY})),
            with("show_call", &json!({"request": "req-1"})),
        ] {
            let refused = asked(&app, &command).await;

            assert_eq!(refused.failure(), (404, "not_found".to_owned()), "{command}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_to_find_is_text_and_no_pattern() {
    with_app(async |app| {
        let (one, _) =
            (app.member("a_b%c@example.com").await, app.member("axbyc@example.com").await);
        let listed = async |text: &str| {
            let page = done(&app, with("list_customers", &json!({"text": text}))).await;
            let found = page["customers"].as_array().unwrap().iter();
            found.map(|line| line["email"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let found = async |text: &str| {
            let matches = done(&app, with("find_customers", &json!({"text": text}))).await;
            matches["matches"].as_array().unwrap().len()
        };

        assert_eq!(listed("a_b").await, [&*one.email]);
        assert_eq!(listed("b%c@").await, [&*one.email]);
        assert_eq!(listed("%").await, [&*one.email]);
        assert_eq!(listed("EXAMPLE.com").await.len(), 2);
        assert_eq!(listed("'; drop table customers; --").await.len(), 0);
        assert_eq!((found("%%%").await, found("___").await, found("a_b%c").await), (0, 0, 1));
        assert_eq!(found("  a_b%c  ").await, 1, "space around it does not count");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customers_in_debt_are_listed_with_what_they_owe() {
    with_app(async |app| {
        let (id, client, order) = paid(&app).await;
        app.customer(9).await;
        app.import(&client, "platform_alpha", "ada").await;
        assert_eq!(client.get("/v1/ada/native/users/me").await.status, 200);
        app.settled(&client).await;
        let debtors = async || {
            let page = done(&app, with("list_customers", &json!({"in_debt": true}))).await;
            let listed = page["customers"].as_array().unwrap().iter();
            let line = |of: &Value| (of["customer_id"].clone(), of["debt"].clone());
            listed.map(line).collect::<Vec<_>>()
        };
        assert_eq!(debtors().await, []);

        done(&app, with("refund_order", &json!({"order": order}))).await;
        app.deliver().await;

        // One of the credits was spent, so it is owed.
        assert_eq!(debtors().await, [(json!(id), json!(1))]);
        assert_clean(&app, "a refund of spent credits").await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_changes_nothing_and_says_what_the_command_then_does() {
    with_app(async |app| {
        let (id, client, order) = paid(&app).await;
        let before = shown(&app, &id).await;
        let preview = json!({"dry_run": true});
        let refund = with("refund_order", &json!({"order": order}));
        let suspend = with("suspend_customer", &json!({"customer": id, "reason": "a test"}));
        let dry = |command: &Value| {
            let mut whole = command.clone();
            whole.as_object_mut().unwrap().extend(preview.as_object().unwrap().clone());
            whole
        };

        let would_refund = done(&app, dry(&refund)).await;
        let would_suspend = done(&app, dry(&suspend)).await;
        let erased = asked(&app, &dry(&with("erase_customer", &json!({"customer": id})))).await;

        assert_eq!(
            (&would_refund["dry_run"], &would_suspend["dry_run"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(erased.status, 200, "{}", erased.text());
        assert!(app.asked("POST", "refunds").await.is_empty());
        assert_eq!(balance(&client).await, PACK_CREDITS);
        let after = shown(&app, &id).await;
        for field in ["state", "balance", "debt", "email", "keys", "orders"] {
            assert_eq!(after[field], before[field], "{field}");
        }
        let actions = audited(&app, &id).await;
        let previews = actions.iter().filter(|(action, _)| action == "operator.previewed");
        assert_eq!(previews.count(), 3, "{actions:?}");
        // Then it is done: the same, and once.
        let refunded = done(&app, refund).await;
        for field in ["amount_cents", "credits_taken", "balance", "debt"] {
            assert_eq!(refunded[field], would_refund[field], "{field}");
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_a_grant_settles_nothing() {
    with_app(async |app| {
        let (id, client, _) = paid(&app).await;
        let stray = store::unmatched::UnmatchedMoney {
            object: "pi_stray",
            reason: domain::payment::Mismatch::UnknownOrder,
            details: "nobody knows it",
            at: app.clock.now(),
        };
        store::payments::note_unmatched(app.store(), &stray).await.unwrap();
        let settle = |more: Value| {
            let mut whole = json!({"object": "pi_stray", "note": "paid by hand"});
            whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            with("settle_unmatched", &whole)
        };
        for (more, field) in [
            (json!({"customer": id}), "credits: "),
            (json!({"credits": 50}), "customer: "),
            (json!({"customer": id, "credits": 0}), "credits: "),
            (json!({"customer": id, "credits": -5}), "credits: "),
            (json!({"customer": id, "credits": 50, "refund": true}), "refund: "),
            (json!({"note": " "}), "note: "),
            (json!({"note": "two\nlines"}), "note: "),
        ] {
            let refused = asked(&app, &settle(more)).await;

            assert_eq!(refused.status, 422, "{}", refused.text());
            let told = refused.json()["error"].as_str().unwrap().to_owned();
            assert!(told.starts_with(field), "{told}");
        }
        let nobody = asked(&app, &settle(json!({"customer": NOBODY, "credits": 5}))).await;
        assert_eq!(nobody.status, 404, "{}", nobody.text());
        let open = done(&app, with("list_unmatched", &json!({}))).await;
        assert_eq!(open["payments"].as_array().unwrap().len(), 1, "it still waits");
        assert_eq!(balance(&client).await, PACK_CREDITS);
        done(&app, settle(json!({"customer": id, "credits": 50}))).await;
        assert_eq!(balance(&client).await, PACK_CREDITS + 50);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erased_customer_is_erased_once_and_nothing_is_done_to_it_afterwards() {
    with_app(async |app| {
        let customer = app.customer(7).await;
        let id = customer.id.as_str();
        let erase = with("erase_customer", &json!({"customer": id}));

        let erased = done(&app, erase.clone()).await;
        let again = asked(&app, &erase).await;
        let suspended =
            asked(&app, &with("suspend_customer", &json!({"customer": id, "reason": "late"})))
                .await;
        let resumed = asked(&app, &with("resume_customer", &json!({"customer": id}))).await;

        assert_eq!(erased["customer_id"], json!(id), "{erased}");
        assert_eq!((again.status, &again.json()["applied"]), (200, &json!(false)));
        assert_eq!((suspended.status, resumed.status), (409, 409), "{}", suspended.text());
        let by_address = json!({"customer": "customer0@example.com"});
        assert_eq!(asked(&app, &with("show_customer", &by_address)).await.status, 404);
        let kept = shown(&app, id).await;
        assert!(!kept.to_string().contains("customer0@example.com"), "{kept}");
        assert_eq!(app.with_key(&customer.key).get("/v1/billing").await.status, 401);
        assert_clean(&app, "erasing").await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_sent_again_says_that_it_did_nothing() {
    with_app(async |app| {
        let (id, client, order) = paid(&app).await;
        let refund = with("refund_order", &json!({"order": order}));

        let first = done(&app, refund.clone()).await;
        let again = done(&app, refund.clone()).await;
        app.deliver().await;
        let late = done(&app, refund).await;

        assert_eq!((&first["applied"], &first["amount_cents"]), (&json!(true), &json!(1_000)));
        for repeated in [&again, &late] {
            assert_eq!(repeated["applied"], false, "{repeated}");
            assert_eq!(repeated["amount_cents"], 0, "{repeated}");
            assert_eq!(repeated["refund_id"], Value::Null, "{repeated}");
        }
        assert_eq!(app.asked("POST", "refunds").await.len(), 1);
        assert_eq!(balance(&client).await, 0);
        let orders = shown(&app, &id).await["orders"].clone();
        assert_eq!(orders[0]["state"], json!("refunded"), "{orders}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_customer_paid_in_part_back_is_refunded_to_the_last_cent() {
    with_app(async |app| {
        let (_, client, order) = paid(&app).await;
        let intent = client.get(&format!("/v1/billing/orders/{order}")).await.json();
        assert_eq!(intent["status"], "paid", "{intent}");
        let payments = app.at_processor("GET", "payment_intents?limit=10", "").await;
        let payment = payments["data"][0]["id"].as_str().unwrap().to_owned();
        app.refund(&payment, 250).await;
        app.deliver().await;
        let left = balance(&client).await;

        let preview =
            done(&app, with("refund_order", &json!({"order": order, "dry_run": true}))).await;
        let refunded = done(&app, with("refund_order", &json!({"order": order}))).await;
        app.deliver().await;

        assert_eq!(
            (&preview["amount_cents"], &refunded["amount_cents"]),
            (&json!(750), &json!(750))
        );
        assert_eq!(refunded["credits_taken"], json!(left));
        assert_eq!(balance(&client).await, 0);
        assert_clean(&app, "two refunds of one order").await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outstanding_credits_follow_gifts_calls_and_refunds() {
    with_app(async |app| {
        let outstanding = async || {
            let report = done(&app, json!({"command": "liability"})).await;
            report.to_string()
        };
        let empty = outstanding().await;
        let (_, client, order) = paid(&app).await;
        let full = outstanding().await;
        assert_ne!(full, empty);
        assert!(full.contains("5000"), "{full}");
        app.import(&client, "platform_alpha", "ada").await;
        assert_eq!(client.get("/v1/ada/native/users/me").await.status, 200);
        app.settled(&client).await;

        assert!(outstanding().await.contains("4999"), "{}", outstanding().await);
        done(&app, with("refund_order", &json!({"order": order}))).await;
        app.deliver().await;
        let after = outstanding().await;
        assert!(!after.contains("4999") && !after.contains("5000"), "{after}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_money_the_bank_took_back_is_not_refunded() {
    with_app(async |app| {
        let (id, client, order) = paid(&app).await;
        let payments = app.at_processor("GET", "payment_intents?limit=10", "").await;
        app.dispute(payments["data"][0]["id"].as_str().unwrap()).await;
        app.deliver().await;
        let before = audited(&app, &id).await;
        for (credits, dry_run) in [("take", true), ("take", false), ("keep", true), ("keep", false)]
        {
            let more = json!({"order": order, "credits": credits, "dry_run": dry_run});

            let refused = asked(&app, &with("refund_order", &more)).await;

            assert_eq!(refused.failure(), (409, "operator_refused".to_owned()));
            assert!(refused.text().contains("disputed"), "{}", refused.text());
        }
        assert_eq!(audited(&app, &id).await, before, "nothing is said to have been done");
        assert!(app.asked("POST", "refunds").await.is_empty());
        assert_eq!(balance(&client).await, 0);
        app
    })
    .await;
}
