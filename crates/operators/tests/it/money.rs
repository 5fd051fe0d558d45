//! Refunds that let the customer keep its credits, and payments that matched no order.

use domain::payment::Mismatch;
use serde_json::{Value, json};
use store::unmatched::UnmatchedMoney;

use super::{asked, assert_clean, done};
use test_service::processor::{PACK_CREDITS, balance, bookings};
use test_service::subscriber::GOOD_CARD;
use test_service::{Client, TestApp, with_app};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_may_leave_the_customer_its_credits() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 0).await;
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, "4242424242424242").await;
        app.deliver().await;
        assert_eq!(client.get(&format!("/v1/{account}/native/users/me")).await.status, 200);
        app.settled(&client).await;
        let refund = |dry_run: bool| {
            json!({"command": "refund_order", "order": begun.order, "credits": "keep", "dry_run": dry_run})
        };

        let preview = done(&app, refund(true)).await;
        let refunded = done(&app, refund(false)).await;
        let again = done(&app, refund(false)).await;
        app.deliver().await;

        assert_eq!(refunded["credits_kept"], PACK_CREDITS, "{refunded}");
        for field in ["credits_taken", "credits_kept", "balance", "debt"] {
            assert_eq!(refunded[field], preview[field], "{field}");
        }
        assert_eq!((&refunded["balance"], &refunded["debt"]), (&json!(PACK_CREDITS - 1), &json!(0)));
        assert_eq!(refunded["credits_taken"], 0);
        assert_eq!((&preview["lots"], &refunded["lots"]), (&json!([]), &json!([])));
        // A repetition moves no money and says what the customer kept.
        assert_eq!((&again["applied"], &again["amount_cents"]), (&json!(false), &json!(0)));
        assert_eq!((&again["credits_kept"], &again["balance"]), (&json!(PACK_CREDITS), &json!(PACK_CREDITS - 1)));
        assert_eq!(balance(&client).await, PACK_CREDITS - 1);
        // The refund fails at the bank: the credits are there once.
        let id = refunded["refund_id"].as_str().unwrap();
        app.control(&format!("refunds/{id}/settle"), json!({"succeeded": false})).await;
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS - 1);
        assert_eq!(bookings(&client).await.iter().filter(|(kind, _)| kind == "adjustment").count(), 0);
        assert_clean(&app, "a refund that keeps the credits").await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_refund_grants_nothing_of_what_an_earlier_one_took_and_leaves_the_end_of_the_lot() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[credits.expiry]\npack_days = 10\n").await;
    let client = app.with_key(&app.customer(0).await.key);
    let begun = app.begin_checkout(&client).await;
    let intent = app.pay_page(&begun.session, GOOD_CARD).await;
    app.deliver().await;
    let lots = async || client.get("/v1/billing").await.json()["lots"].clone();
    let end = lots().await[0]["expires_at"].clone();
    app.refund(&intent, 300).await;
    app.deliver().await;
    assert_eq!(balance(&client).await, PACK_CREDITS - 1_500);
    let refund = |credits: &str, dry_run: bool| json!({"command": "refund_order", "order": begun.order, "credits": credits, "dry_run": dry_run});

    let taking = done(&app, refund("take", true)).await;
    let keeping = done(&app, refund("keep", true)).await;
    let kept = done(&app, refund("keep", false)).await;
    app.deliver().await;

    assert_eq!((&taking["credits_taken"], &taking["credits_kept"]), (&json!(3_500), &json!(0)));
    let lot = lots().await[0].clone();
    assert_eq!(taking["lots"], json!([{"lot_id": lot["lot_id"], "credits": -3_500}]));
    for done in [&keeping, &kept] {
        assert_eq!(
            (&done["credits_taken"], &done["credits_kept"]),
            (&json!(0), &json!(3_500)),
            "{done}"
        );
        assert_eq!(
            (&done["balance"], &done["amount_cents"]),
            (&json!(3_500), &json!(700)),
            "{done}"
        );
    }
    assert_eq!((&lot["left"], &lot["expires_at"]), (&json!(3_500), &end));
    app.advance_seconds(11 * 86_400);
    app.running().expire_credits().await;
    let again = done(&app, refund("keep", false)).await;
    assert_eq!((&again["applied"], &again["balance"]), (&json!(false), &json!(0)));
    assert_clean(&app, "a kept refund of a pack with an end").await;
    app.end().await;
}

/// A part that went back before does not stand for the whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settling_a_payment_gives_back_what_an_earlier_refund_left_of_it() {
    with_app(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        let stray = stray_payment(&app, &client).await;
        let intent = stray.as_str().unwrap();
        app.refund(intent, 400).await;
        let settle = json!({
            "command": "settle_unmatched", "object": stray, "note": "not ours", "refund": true,
        });

        let settled = done(&app, settle.clone()).await;
        let again = done(&app, settle).await;

        let all = app.at_processor("GET", &format!("refunds?payment_intent={intent}"), "").await;
        let all = all["data"].as_array().unwrap();
        assert_eq!(all.iter().map(|one| one["amount"].as_i64().unwrap()).sum::<i64>(), 999);
        assert_eq!((all.len(), &all[0]["id"]), (2, &settled["refund_id"]));
        assert_eq!(
            (&again["applied"], &again["refund_id"]),
            (&json!(false), &settled["refund_id"])
        );
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_paid_order_is_refunded() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        let refund = |order: &str| json!({"command": "refund_order", "order": order});

        let open = asked(&app, &refund(&begun.order)).await;
        let unknown = asked(&app, &refund("ord_019ab3c4d5e67f8091a2b3c4d5e6f708")).await;

        assert_eq!(open.failure(), (409, "operator_refused".to_owned()), "{}", open.text());
        assert_eq!(unknown.failure(), (404, "not_found".to_owned()), "{}", unknown.text());
        assert!(app.asked("POST", "refunds").await.is_empty());
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_cost_nothing_has_nothing_to_give_back() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        let free = json!({"card": GOOD_CARD, "percent_off": 100});
        app.control(&format!("checkout/{}/pay", begun.session), free).await;
        app.deliver().await;
        assert_eq!(balance(&client).await, PACK_CREDITS);

        let refused = asked(&app, &json!({"command": "refund_order", "order": begun.order})).await;

        assert_eq!(refused.failure(), (409, "operator_refused".to_owned()), "{}", refused.text());
        assert!(refused.text().contains("nothing was paid"), "{}", refused.text());
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_concurrent_refunds_one_moves_money_and_the_others_say_that_they_did_not() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        let begun = app.begin_checkout(&client).await;
        app.pay_page(&begun.session, GOOD_CARD).await;
        app.deliver().await;
        let refund = || json!({"command": "refund_order", "order": begun.order});

        let (one, two, three) =
            tokio::join!(done(&app, refund()), done(&app, refund()), done(&app, refund()));

        // Those that overlap share the processor's refund: they sent the same request.
        let of_refund = |done: &&Value| done["refund_id"].is_string();
        let all = [one, two, three];
        let mut ids: Vec<_> = all.iter().filter(of_refund).map(|done| &done["refund_id"]).collect();
        ids.dedup();
        assert_eq!(ids.len(), 1, "{all:?}");
        for done in all.iter().filter(|done| !of_refund(done)) {
            let said = [&done["applied"], &done["amount_cents"], &done["credits_taken"]];
            assert_eq!(said, [&json!(false), &json!(0), &json!(0)], "{done}");
        }
        let refunds = app.at_processor("GET", "refunds?limit=10", "").await;
        assert_eq!(refunds["data"].as_array().unwrap().len(), 1, "{refunds}");
        assert_eq!(balance(&client).await, 0);
        assert_clean(&app, "concurrent refunds").await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unmatched_payment_is_settled_once() {
    with_app(async |app| {
        let customer = app.customer(0).await;
        let client = app.with_key(&customer.key);
        for object in ["pi_stray", "in_stray"] {
            let stray = UnmatchedMoney {
                object,
                reason: Mismatch::UnknownOrder,
                details: "nobody knows it",
                at: app.clock.now(),
            };
            store::payments::note_unmatched(app.store(), &stray).await.unwrap();
        }
        let list = async |all: bool| {
            let command = json!({"command": "list_unmatched", "with_settled": all});
            done(&app, command).await["payments"].as_array().unwrap().clone()
        };
        let settle = |object: &str, more: Value| {
            let mut command =
                json!({"command": "settle_unmatched", "object": object, "note": "paid by hand"});
            command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            command
        };
        let grant = json!({"customer": customer.id, "credits": 50});
        let mut dry = grant.clone();
        dry["dry_run"] = json!(true);
        assert_eq!(list(false).await.len(), 2);

        done(&app, settle("pi_stray", dry)).await;
        assert_eq!((balance(&client).await, list(false).await.len()), (0, 2));
        let settled = done(&app, settle("pi_stray", grant.clone())).await;
        let again = done(&app, settle("pi_stray", grant)).await;
        let otherwise = asked(&app, &settle("pi_stray", json!({}))).await;
        let no_payment = asked(&app, &settle("in_stray", json!({"refund": true}))).await;
        done(&app, settle("in_stray", json!({}))).await;

        assert_eq!((&settled["applied"], &again["applied"]), (&json!(true), &json!(false)));
        assert_eq!(balance(&client).await, 50);
        assert_eq!(otherwise.failure(), (409, "operator_refused".to_owned()));
        assert_eq!(no_payment.failure(), (409, "operator_refused".to_owned()));
        assert_eq!((list(false).await.len(), list(true).await.len()), (0, 2));
        assert_eq!(list(true).await[0]["settled_by"], "operator:grace");
        assert_eq!(asked(&app, &settle("pi_other", json!({}))).await.status, 404);
        assert_clean(&app, "settling").await;
        app
    })
    .await;
}

/// The money of a stray payment goes back, and what the processor then reports about it needs no
/// decision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unmatched_payment_is_given_back() {
    with_app(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        let stray = stray_payment(&app, &client).await;
        let list = json!({"command": "list_unmatched"});
        let waiting = done(&app, list.clone()).await;
        assert_eq!(waiting["payments"][0]["object"], stray, "{waiting}");

        let settle = json!({
            "command": "settle_unmatched", "object": stray, "note": "not ours", "refund": true,
        });
        let settled = done(&app, settle.clone()).await;
        app.deliver().await;
        let again = done(&app, settle).await;

        assert!(settled["refund_id"].as_str().unwrap().starts_with("re_"), "{settled}");
        assert_eq!(again["applied"], false);
        assert_eq!(app.asked("POST", "refunds").await.len(), 1);
        assert_eq!(done(&app, list).await["payments"], json!([]));
        assert_eq!(balance(&client).await, PACK_CREDITS);
        app
    })
    .await;
}

/// Of two operators one decides, even if both ask at the same time: the money is either granted as
/// credits or given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_operators_settle_a_payment_in_one_way() {
    with_app(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        let stray = stray_payment(&app, &client).await;
        let credited = app.customer(0).await;
        let settle = |more: Value| {
            let mut command =
                json!({"command": "settle_unmatched", "object": stray, "note": "not ours"});
            command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            command
        };
        let grant = settle(json!({"customer": credited.id, "credits": 50}));
        let back = settle(json!({"refund": true}));

        let (granted, returned) = tokio::join!(asked(&app, &grant), asked(&app, &back));

        let mut statuses = [granted.status, returned.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{} {}", granted.text(), returned.text());
        let credits = balance(&app.with_key(&credited.key)).await;
        let refunds = app.asked("POST", "refunds").await.len();
        assert_eq!((credits, refunds), if granted.status == 200 { (50, 0) } else { (0, 1) });
        assert_clean(&app, "settling").await;
        app
    })
    .await;
}

/// What the processor reports again about a payment while an operator settles it neither opens the
/// payment again nor grants anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_arrive_beside_a_settlement_change_nothing() {
    with_app(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        let stray = stray_payment(&app, &client).await;
        let credited = app.customer(0).await;
        let settle = json!({
            "command": "settle_unmatched", "object": stray, "note": "paid by hand",
            "customer": credited.id, "credits": 50,
        });
        let events = app.at_processor("GET", "events?limit=100", "").await;
        let events = events["data"].as_array().unwrap();
        let of_stray: Vec<&Value> = events
            .iter()
            .filter(|event| event["data"]["object"].to_string().contains(stray.as_str().unwrap()))
            .map(|event| &event["id"])
            .collect();
        assert!(of_stray.len() > 1, "{events:?}");
        let again = json!({"events": of_stray});

        let (settled, sent) =
            tokio::join!(asked(&app, &settle), app.control("deliver", again.clone()));
        app.control("deliver", again).await;

        assert_eq!(settled.status, 200, "{}", settled.text());
        assert_eq!(sent["sent"].as_array().unwrap().len(), of_stray.len(), "{sent}");
        assert_eq!(balance(&app.with_key(&credited.key)).await, 50);
        assert_eq!(balance(&client).await, PACK_CREDITS);
        let open = done(&app, json!({"command": "list_unmatched"})).await;
        assert_eq!(open["payments"], json!([]));
        assert_clean(&app, "settling").await;
        app
    })
    .await;
}

/// A refund that the processor certainly did not make leaves the payment to be settled; one whose
/// outcome is unknown is looked up when the command is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_that_failed_is_open_and_one_that_is_unknown_is_finished() {
    with_app(async |app| {
        let (_, client) = app.with_card(GOOD_CARD).await;
        let stray = stray_payment(&app, &client).await;
        let settle = json!({
            "command": "settle_unmatched", "object": stray, "note": "not ours", "refund": true,
        });
        let list = json!({"command": "list_unmatched"});

        let refused = json!({"kind": "error_before", "path": "refunds", "times": 9});
        app.processor_fault(&refused).await;
        assert_ne!(asked(&app, &settle).await.status, 200);
        app.mend_processor().await;
        assert_eq!(done(&app, list.clone()).await["payments"][0]["object"], stray);

        let unanswered =
            json!({"kind": "error_after", "method": "POST", "path": "refunds", "times": 9});
        app.processor_fault(&unanswered).await;
        assert_ne!(asked(&app, &settle).await.status, 200);
        app.mend_processor().await;
        let finished = done(&app, settle).await;

        assert!(finished["refund_id"].as_str().unwrap().starts_with("re_"), "{finished}");
        assert_eq!(done(&app, list).await["payments"], json!([]));
        let at_processor = app
            .at_processor("GET", &format!("refunds?payment_intent={}", stray.as_str().unwrap()), "")
            .await;
        assert_eq!(at_processor["data"].as_array().unwrap().len(), 1, "{at_processor}");
        app
    })
    .await;
}

/// A payment at the processor that matches no order.
async fn stray_payment(app: &TestApp, client: &Client) -> Value {
    let begun = app.begin_checkout(client).await;
    app.deliver().await;
    let payers = app.at_processor("GET", "customers?limit=10", "").await;
    let form = format!(
        "amount=999&currency=usd&customer={}&payment_method=pm_card_visa\
         &payment_method_types[]=card&confirm=true&metadata[order_id]={}",
        payers["data"][0]["id"].as_str().unwrap(),
        begun.order
    );
    let stray = app.at_processor("POST", "payment_intents", &form).await;
    app.deliver().await;
    stray["id"].clone()
}
