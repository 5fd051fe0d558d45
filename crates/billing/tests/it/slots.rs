//! Slots: raised only when paid, lowered only when free, and switched in one change, whatever fails
//! in between.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_service::subscriber::{GOOD_CARD, OFFER, PLAN, active, selling, slots_on};
use test_service::{Client, Reply, TestApp, at_once};

const ALPHA: &str = "platform_alpha";
const BETA: &str = "platform_beta";

async fn set(client: &Client, platform: &str, count: i64) -> Reply {
    client.post("/v1/billing/slots", &json!({"platform": platform, "count": count})).await
}

async fn slots(client: &Client) -> Value {
    client.get("/v1/billing/slots").await.json()
}

/// The slots of a platform at the processor.
async fn at_processor(app: &TestApp, platform: &str) -> i64 {
    let subscription = app.subscription().await;
    let product = format!("creator_gateway_slot_{platform}");
    let items = subscription["items"]["data"].as_array().unwrap().clone();
    let own = items.iter().filter(|item| item["price"]["product"] == product.as_str());
    own.map(|item| item["quantity"].as_i64().unwrap()).sum()
}

/// The invoices of the only customer, newest first.
async fn invoices(app: &TestApp) -> Vec<Value> {
    app.at_processor("GET", "invoices?limit=100", "").await["data"].as_array().unwrap().clone()
}

/// Makes requests that change a subscription fail in this way.
async fn go_wrong(app: &TestApp, kind: &str, times: u32) {
    let switch =
        json!({"kind": kind, "method": "POST", "path": "subscriptions/{id}", "times": times});
    app.control("switches", switch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raise_is_charged_immediately_for_the_rest_of_the_period_and_applies_immediately() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        for creator in ["a", "b", "c", "d", "e"] {
            app.import(&client, ALPHA, creator).await;
        }
        assert_eq!(active(&client).await, ["a", "b", "c"]);
        let period_end =
            client.get("/v1/billing/subscription").await.json()["current_period_end"].clone();
        app.advance_seconds(10 * 86_400);
        let path = format!("/v1/billing/slots/preview?platform={ALPHA}&count=1");
        let preview = client.get(&path).await.json();
        app.advance_seconds(300);

        let wanted = json!({"platform": ALPHA, "count": 1, "creator_id": "e"});
        let reply = client.post("/v1/billing/slots", &wanted).await;

        assert_eq!(reply.status, 200, "{}", reply.text());
        let alpha = slots_on(&reply.json(), ALPHA);
        let expected = json!({
            "platform": ALPHA, "price_cents": 1_000, "currency": "usd", "interval": "month",
            "available": true, "count": 1, "included": 2, "limit": 4,
            "connected": 5, "active": 4, "free_allowance": 1,
        });
        assert_eq!((&alpha, &reply.json()["change"]), (&expected, &Value::Null));
        assert_eq!(active(&client).await, ["a", "b", "c", "e"]);
        let invoice = invoices(&app).await.remove(0);
        assert_eq!(
            (&invoice["billing_reason"], &invoice["status"]),
            (&json!("subscription_update"), &json!("paid"))
        );
        assert_eq!(invoice["amount_paid"], preview["charged_now_cents"]);
        let charged = preview["charged_now_cents"].as_i64().unwrap();
        assert!((600..=700).contains(&charged), "{preview}");
        let after = client.get("/v1/billing/subscription").await.json();
        assert_eq!(after["current_period_end"], period_end);
        let asked = app.changes_asked().await;
        assert_eq!(asked.len(), 1);
        let params = &asked[0]["params"];
        assert_eq!(params["payment_behavior"], "error_if_incomplete", "{params}");
        assert!(asked[0]["idempotency_key"].as_str().unwrap().starts_with("slot:chg_"));
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpaid_raise_changes_nothing() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        assert_eq!(set(&client, ALPHA, 1).await.status, 200);
        app.deliver().await;
        let before = (slots(&client).await, app.subscription().await, invoices(&app).await.len());
        let balance = client.get("/v1/billing").await.json()["balance"].clone();

        for (code, shown) in
            [("insufficient_funds", "insufficient_funds"), ("card_declined", "generic_decline")]
        {
            app.control("declines", json!({"codes": [code]})).await;
            let reply = set(&client, ALPHA, 3).await;

            assert_eq!(reply.failure(), (402, "payment_failed".to_owned()), "{}", reply.text());
            let told = reply.json()["decline_code"].clone();
            assert!(told == shown || told == code, "{told}");
        }
        app.deliver().await;

        let mut after = app.subscription().await;
        after["latest_invoice"] = before.1["latest_invoice"].clone();
        assert_eq!((slots(&client).await, after), (before.0, before.1));
        assert_eq!(client.get("/v1/billing").await.json()["balance"], balance);
        assert_eq!(set(&client, ALPHA, 3).await.status, 200);
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setting_the_current_number_changes_nothing_and_costs_nothing() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let first = set(&client, BETA, 2).await.json();

        let second = set(&client, BETA, 2).await;

        assert_eq!(second.json()["slots"], first["slots"]);
        assert_eq!(
            (&first["charged_cents"], &second.json()["charged_cents"]),
            (&json!(3_200), &json!(0))
        );
        assert_eq!((app.changes_asked().await.len(), at_processor(&app, BETA).await), (1, 2));
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lowering_is_refused_while_accounts_use_the_slots_and_credited_afterwards() {
    selling(async |app| {
        let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 2}});
        let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
        for creator in ["a", "b", "c", "d"] {
            app.import(&client, ALPHA, creator).await;
        }
        let count = invoices(&app).await.len();

        let refused = set(&client, ALPHA, 0).await;
        let path = format!("/v1/billing/slots/preview?platform={ALPHA}&count=1");
        let preview = client.get(&path).await.json();
        let lowered = set(&client, ALPHA, 1).await;

        assert_eq!(refused.failure(), (409, "slots_in_use".to_owned()));
        let told = refused.json();
        assert_eq!(told["accounts"], json!(["a", "b", "c", "d"]));
        assert_eq!((&told["platform"], &told["must_free"]), (&json!(ALPHA), &json!(1)));
        assert_eq!(told["waiting"], json!([]));
        let words = told["detail"].as_str().unwrap();
        assert!(words.starts_with("1 of the 4 active accounts"), "{words}");
        assert!(words.contains("PATCH /v1/accounts/{account}"), "{words}");
        assert_eq!(slots_on(&lowered.json(), ALPHA)["limit"], 4, "{}", lowered.text());
        assert_eq!(active(&client).await.len(), 4);
        assert_eq!(
            invoices(&app).await.len(),
            count,
            "nothing must be charged or credited immediately"
        );
        let credit = preview["credited_cents"].as_i64().unwrap();
        assert!((950..=1_000).contains(&credit), "{preview}");
        assert_eq!(preview["charged_now_cents"], 0);
        app.deliver().await;
        app.months_pass(1).await;
        let next = invoices(&app).await.remove(0);
        // The plan and one slot, minus the credit.
        assert_eq!(next["total"], 2_900 + 1_000 - credit, "{next}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lowering_works_once_enough_accounts_are_switched_off() {
    selling(async |app| {
        let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 1}});
        let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
        for creator in ["a", "b", "c", "d", "e"] {
            app.import(&client, ALPHA, creator).await;
        }
        let off = async |creator: &str| {
            let path = format!("/v1/accounts/{creator}");
            client.json("PATCH", &path, &json!({"state": "inactive"})).await.status
        };

        let refused = set(&client, ALPHA, 0).await;

        assert_eq!(refused.failure(), (409, "slots_in_use".to_owned()));
        let told = refused.json();
        assert_eq!((&told["must_free"], &told["waiting"]), (&json!(1), &json!(["e"])));
        assert_eq!((off("e").await, off("b").await), (200, 200));
        let lowered = set(&client, ALPHA, 0).await;
        assert_eq!(lowered.status, 200, "{}", lowered.text());
        assert_eq!(slots_on(&lowered.json(), ALPHA)["limit"], 3);
        assert_eq!(active(&client).await, ["a", "c", "d"]);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_moves_one_slot_in_one_change_and_the_next_invoice_has_the_difference() {
    selling(async |app| {
        let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 1}});
        let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
        for creator in ["b1", "b2", "b3", "b4", "b5"] {
            app.import(&client, BETA, creator).await;
        }
        for creator in ["a1", "a2", "a3", "a4"] {
            app.import(&client, ALPHA, creator).await;
        }
        let count = invoices(&app).await.len();
        let switch = json!({"from": ALPHA, "to": BETA, "creator_id": "b5"});
        let path = "/v1/billing/slots/switch";

        let in_use = client.post(path, &switch).await;
        assert_eq!(client.delete("/v1/accounts/a4").await.status, 204);
        let switched = client.post(path, &switch).await;
        let none_left = client.post(path, &switch).await;

        assert_eq!(in_use.failure(), (409, "slots_in_use".to_owned()));
        assert_eq!(switched.status, 200, "{}", switched.text());
        let (alpha, beta) = (slots_on(&switched.json(), ALPHA), slots_on(&switched.json(), BETA));
        assert_eq!((&alpha["count"], &alpha["limit"]), (&json!(0), &json!(3)));
        assert_eq!(
            (&beta["count"], &beta["limit"], &beta["active"]),
            (&json!(1), &json!(4), &json!(4))
        );
        assert!(active(&client).await.contains(&"b5".to_owned()));
        assert_eq!(none_left.failure(), (409, "no_slot".to_owned()));
        let asked = app.changes_asked().await;
        assert_eq!(asked.len(), 1, "both quantities must change in one request");
        assert_eq!(asked[0]["params"]["proration_behavior"], "create_prorations");
        assert_eq!(invoices(&app).await.len(), count);
        app.deliver().await;
        app.months_pass(1).await;
        let next = invoices(&app).await.remove(0);
        let total = next["total"].as_i64().unwrap();
        // The plan, a slot of platform_beta, and the difference for almost a month.
        assert!((2_900 + 1_600 + 580..=2_900 + 1_600 + 600).contains(&total), "{next}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_was_made_counts_even_without_a_response() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;

        for (number, kind) in (1..).zip(["error_after", "close_after"]) {
            go_wrong(&app, kind, 1).await;
            let reply = set(&client, ALPHA, number).await;

            assert_eq!(reply.status, 200, "{kind}: {}", reply.text());
            assert_eq!(slots_on(&reply.json(), ALPHA)["count"], number);
            assert_eq!(at_processor(&app, ALPHA).await, number);
        }
        let paid = invoices(&app).await;
        let raises =
            paid.iter().filter(|invoice| invoice["billing_reason"] == "subscription_update");
        assert_eq!(raises.count(), 2);
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_unknown_outcome_stays_open_and_is_resumed_with_the_same_request() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        go_wrong(&app, "error_before", 3).await;

        let unknown = set(&client, ALPHA, 2).await;
        let open = slots(&client).await;
        let other = set(&client, BETA, 1).await;
        app.advance_seconds(20);
        let same = set(&client, ALPHA, 2).await;

        assert_eq!(
            unknown.failure(),
            (504, "change_outcome_unknown".to_owned()),
            "{}",
            unknown.text()
        );
        assert_eq!(
            (&open["change"]["kind"], &slots_on(&open, ALPHA)["count"]),
            (&json!("raise"), &json!(0))
        );
        assert_eq!(other.failure(), (409, "change_in_progress".to_owned()));
        assert_eq!(slots_on(&same.json(), ALPHA)["count"], 2, "{}", same.text());
        let asked = app.changes_asked().await;
        let keys: BTreeSet<String> =
            asked.iter().map(|request| request["idempotency_key"].to_string()).collect();
        assert_eq!((keys.len(), at_processor(&app, ALPHA).await), (1, 2));
        app.deliver().await;
        app
    })
    .await;
}

/// A slot that was being given up is available again if the change fails, and the audit list says
/// which account got it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_list_has_an_account_that_gets_a_slot_because_a_change_failed() {
    selling(async |app| {
        let (customer, client) = app.subscriber(GOOD_CARD).await;
        assert_eq!(set(&client, ALPHA, 1).await.status, 200);
        for creator in ["a", "b", "c"] {
            app.import(&client, ALPHA, creator).await;
        }
        go_wrong(&app, "error_before", 100).await;

        let unknown = set(&client, ALPHA, 0).await;
        assert_eq!(unknown.status, 504, "{}", unknown.text());
        assert_eq!(app.import(&client, ALPHA, "d").await, "inactive");
        app.advance_seconds(600);
        let failed = set(&client, ALPHA, 0).await;

        assert_eq!(failed.code(), "processor_unavailable", "{}", failed.text());
        assert_eq!(active(&client).await, ["a", "b", "c", "d"]);
        let audit = client.get("/v1/audit?action=accounts.activated").await.json();
        let entries = audit["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 1, "{audit}");
        let given = json!({"accounts": [{"creator_id": "d", "platform": ALPHA}]});
        let told = (&entries[0]["actor"], &entries[0]["details"]);
        assert_eq!(told, (&json!(customer.key_id), &given));
        app.mend_processor().await;
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_or_unavailable_processor_leaves_no_change_open() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        go_wrong(&app, "lock_timeout", 3).await;

        let locked = set(&client, ALPHA, 1).await;
        let after = slots(&client).await;
        let next = set(&client, ALPHA, 1).await;

        assert_eq!(locked.failure(), (409, "change_in_progress".to_owned()), "{}", locked.text());
        assert_eq!(
            (&after["change"], &slots_on(&after, ALPHA)["count"]),
            (&Value::Null, &json!(0))
        );
        assert_eq!(next.status, 200, "{}", next.text());
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_lowered_at_the_processor_make_the_newest_accounts_inactive() {
    selling(async |app| {
        let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 2}});
        let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
        for creator in ["d", "c", "b", "a", "z"] {
            app.import(&client, ALPHA, creator).await;
        }
        let subscription = app.subscription().await;
        let items = subscription["items"]["data"].as_array().unwrap();
        let item = items.iter().find(|item| item["quantity"] == 2).unwrap()["id"].as_str().unwrap();
        let id = subscription["id"].as_str().unwrap();

        let form = format!("items[0][id]={item}&items[0][quantity]=0");
        app.at_processor("POST", &format!("subscriptions/{id}"), &form).await;
        app.deliver().await;

        let alpha = slots_on(&slots(&client).await, ALPHA);
        assert_eq!(
            (&alpha["count"], &alpha["limit"], &alpha["active"]),
            (&json!(0), &json!(3), &json!(3))
        );
        assert_eq!(active(&client).await, ["b", "c", "d"]);
        assert_eq!(app.mails_to("customer0@example.com").await.len(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_number_of_slots_is_reported_with_its_field() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        app.import(&client, BETA, "b").await;
        let post = async |body: Value| client.post("/v1/billing/slots", &body).await;

        for (body, field) in [
            (json!({"platform": ALPHA, "count": -1}), "body.count"),
            (json!({"platform": ALPHA, "count": 1_000_000_000}), "body.count"),
            (json!({"platform": ALPHA, "count": 1.5}), "body.count"),
            (json!({"platform": ALPHA, "count": "1"}), "body.count"),
            (json!({"platform": "platform_gamma", "count": 1}), "body.platform"),
            (json!({"platform": "platform_delta", "count": 1}), "body.platform"),
            (json!({"platform": ALPHA}), "body.count"),
            (json!({"platform": ALPHA, "count": 1, "price_cents": 1}), "body.price_cents"),
            (json!({"platform": ALPHA, "count": 1, "creator_id": "b"}), "body.creator_id"),
        ] {
            let reply = post(body).await;
            assert_eq!(reply.wrong_fields()[0].0, field, "{}", reply.text());
        }
        let nobody = post(json!({"platform": ALPHA, "count": 1, "creator_id": "nobody"})).await;
        assert_eq!(nobody.failure(), (404, "account_not_found".to_owned()));
        let same = json!({"from": ALPHA, "to": ALPHA});
        let same = client.post("/v1/billing/slots/switch", &same).await;
        assert_eq!(same.wrong_fields()[0].0, "body.to");
        let other = app.customer(0).await;
        let none = set(&app.with_key(&other.key), ALPHA, 1).await;
        assert_eq!(none.failure(), (409, "no_subscription".to_owned()));
        assert_eq!(app.changes_asked().await.len(), 0);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_processor_slots_can_be_read_but_not_changed() {
    let database = store::testing::store().await;
    let offer = format!("{OFFER}\n[processor]\nbase_url = \"\"\n");
    let app = TestApp::start(database, &offer).await;
    let customer = app.customer(0).await;
    let client = app.with_key(&customer.key);

    let shown = slots(&client).await;
    let refused = set(&client, ALPHA, 1).await;
    let portal = client.post("/v1/billing/portal", &json!({})).await;

    assert_eq!(slots_on(&shown, ALPHA)["limit"], 1);
    let not_configured = (503, "payments_not_configured".to_owned());
    assert_eq!((refused.failure(), portal.failure()), (not_configured.clone(), not_configured));
    let plans = client.get("/v1/billing/subscriptions/plans").await.json();
    assert_eq!(plans["processor_configured"], false);
    app.end().await;
}

/// The number of rounds of the race below; `scripts/slot-test` sets 500.
const ROUNDS: &str = "CREATOR_GATEWAY_TEST_SLOT_ROUNDS";

/// Prints how a long run went.
#[expect(clippy::print_stdout, reason = "scripts/slot-test shows it")]
fn tell(report: &str) {
    println!("{report}");
}

/// Twenty changes of slots and twenty imports race, while another client reads all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_changes_against_twenty_imports_never_exceed_what_is_paid() {
    let rounds: usize = std::env::var(ROUNDS).map_or(2, |rounds| rounds.parse().unwrap());
    let database = store::testing::store().await;
    let app = TestApp::start(database, OFFER).await;
    let (_, client) = app.subscriber(GOOD_CARD).await;
    let (mut accepted, mut asked) = (0, BTreeSet::new());
    for round in 0..rounds {
        accepted += race(&app, &client, round).await;
        if round % 20 == 0 || round + 1 == rounds {
            asked.extend(asked_once(&app).await);
        }
    }
    let changes = asked.len();
    assert!(changes > rounds, "{changes} changes in {rounds} rounds");
    tell(&format!("{rounds} rounds, {accepted} requests answered 200, {changes} changes"));
    app.end().await;
}

/// The idempotency keys of the changes requested from the processor, each of which must be unique.
async fn asked_once(app: &TestApp) -> BTreeSet<String> {
    let asked = app.changes_asked().await;
    let keys: BTreeSet<String> =
        asked.iter().map(|request| request["idempotency_key"].to_string()).collect();
    assert_eq!(keys.len(), asked.len());
    keys
}

/// One round; returns the number of requests to set the number of slots that got 200.
async fn race(app: &TestApp, client: &Client, round: usize) -> usize {
    let billing_date = async || {
        let shown = client.get("/v1/billing/subscription").await.json();
        shown["current_period_end"].clone()
    };
    let before = billing_date().await;
    let accounts = simulators::demo_accounts(&app.settings);
    let auth = accounts.iter().find(|account| account.platform == ALPHA).unwrap().auth.clone();
    let control = Client::new(app.world.address());
    let work = (0..42_u8).map(|number| {
        let (client, control, auth) = (client.clone(), control.clone(), auth.clone());
        async move {
            if number >= 40 {
                // Events of this round and of the previous one are part of the race.
                return control.post("/control/processor/deliver", &json!({})).await.status;
            }
            if number % 2 == 0 {
                return set(&client, ALPHA, i64::from(number / 2 % 7)).await.status;
            }
            let name = format!("creator-{number}");
            let import = json!({"creator_id": name, "platform": ALPHA, "auth": auth});
            client.post("/v1/connect/import", &import).await.status
        }
    });
    let racing = at_once(work);
    tokio::pin!(racing);
    let statuses = loop {
        tokio::select! {
            statuses = &mut racing => break statuses,
            shown = slots(client) => assert_within_limit(&shown),
        }
    };

    let expected = |status: &u16| [200, 201, 409].contains(status);
    assert!(statuses.iter().all(expected), "round {round}: {statuses:?}");
    let shown = slots(client).await;
    assert_within_limit(&shown);
    let count = slots_on(&shown, ALPHA)["count"].clone();
    assert_eq!(count, at_processor(app, ALPHA).await, "round {round}: {shown}");
    assert_eq!(shown["change"], Value::Null);
    assert_eq!(billing_date().await, before);
    let gone = (1..40_u8).step_by(2).map(|number| {
        let (client, name) = (client.clone(), format!("creator-{number}"));
        async move { client.delete(&format!("/v1/accounts/{name}")).await.status }
    });
    assert!(at_once(gone).await.iter().all(|status| *status == 204));
    // The next round starts with another number of slots, all of them free.
    let start = i64::try_from(round % 5).unwrap();
    assert_eq!(set(client, ALPHA, start).await.status, 200);
    app.deliver().await;
    statuses.iter().step_by(2).take(20).filter(|status| **status == 200).count()
}

fn assert_within_limit(shown: &Value) {
    let alpha = slots_on(shown, ALPHA);
    assert!(alpha["active"].as_i64().unwrap() <= alpha["limit"].as_i64().unwrap(), "{alpha}");
}
