//! Changes of the plan: an upgrade takes effect immediately, a downgrade at the end of the period,
//! and what was paid for stays until then.

use serde_json::{Value, json};
use test_service::subscriber::{
    BIG_PLAN, GOOD_CARD, MID_PLAN, PLAN, active, choose, plans_of, selling, selling_three,
    subscription_of,
};
use test_service::{Client, TestApp};

const DAY_S: i64 = 86_400;

/// A subscriber to the middle one of the three plans.
async fn mid_subscriber(app: &TestApp) -> Client {
    app.subscriber_of(json!({"plan_id": MID_PLAN}), GOOD_CARD).await.1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_is_paid_immediately_for_the_rest_of_the_period() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let before = subscription_of(&client).await;
        // Half of the period of thirty days is left.
        app.advance_seconds(15 * DAY_S);

        let changed = choose(&client, BIG_PLAN).await;
        let again = choose(&client, BIG_PLAN).await;

        assert_eq!(changed.status, 200, "{}", changed.text());
        let changed = changed.json();
        let invoice = app.invoices().await.remove(0);
        assert_eq!(changed["charged_cents"], (9_900 - 2_900) / 2);
        assert_eq!(changed["credits_granted"], (5_000 - 1_000) / 2);
        assert_eq!(changed["balance"], 3_000);
        assert_eq!(changed["invoice_id"], invoice["id"]);
        assert_eq!((&invoice["status"], &invoice["total"]), (&json!("paid"), &json!(3_500)));
        let plans = (&changed["plan_id"], &changed["next_plan_id"]);
        assert_eq!(plans, (&json!(BIG_PLAN), &json!(BIG_PLAN)));
        assert_eq!(changed["plan"]["price_cents"], 9_900);
        assert_eq!(changed["entitlements"]["platform_alpha"], 5);
        assert_eq!(changed["current_period_end"], before["current_period_end"]);
        assert_eq!((again.status, &again.json()["charged_cents"]), (200, &json!(0)));
        assert_eq!(app.prorations_asked().await, ["always_invoice"]);
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declined_upgrade_changes_nothing() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let before = subscription_of(&client).await;
        app.decline(1).await;

        let declined = choose(&client, BIG_PLAN).await;

        assert_eq!(declined.failure(), (402, "payment_failed".to_owned()));
        assert_eq!(subscription_of(&client).await, before);
        assert_eq!(app.invoices().await.len(), 1);
        app.deliver().await;
        assert_eq!(choose(&client, BIG_PLAN).await.status, 200);
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_starts_with_the_next_period_and_then_the_newest_accounts_become_inactive() {
    selling(async |app| {
        let (_, client) = app.subscriber_of(json!({"plan_id": BIG_PLAN}), GOOD_CARD).await;
        for creator in ["a", "b", "c", "d", "e"] {
            assert_eq!(app.import(&client, "platform_alpha", creator).await, "active");
        }
        let invoices = app.invoices().await.len();

        let changed = choose(&client, PLAN).await;
        app.deliver().await;
        let pending = (plans_of(&client).await, active(&client).await.len());
        app.months_pass(1).await;

        assert_eq!(changed.status, 200, "{}", changed.text());
        let changed = changed.json();
        assert_eq!(
            (&changed["charged_cents"], &changed["credits_granted"], &changed["invoice_id"]),
            (&json!(0), &json!(0), &Value::Null)
        );
        assert_eq!(changed["next_plan"]["price_cents"], 2_900);
        assert_eq!(changed["entitlements"]["platform_alpha"], 5);
        let over = |name: &str| json!({"creator_id": name, "platform": "platform_alpha"});
        assert_eq!(changed["over_limit"], json!([over("d"), over("e")]));
        assert_eq!(pending, ((json!(BIG_PLAN), json!(PLAN)), 5));
        assert_eq!(app.prorations_asked().await, ["none"]);
        let renewal = app.invoices().await;
        assert_eq!((renewal.len(), &renewal[0]["total"]), (invoices + 1, &json!(2_900)));
        assert_eq!(plans_of(&client).await, (json!(PLAN), json!(PLAN)));
        assert_eq!(active(&client).await, ["a", "b", "c"]);
        let mails = app.mails_to("customer0@example.com").await;
        let text = mails.last().unwrap()["text"].as_str().unwrap();
        assert!(text.contains("d on platform_alpha"), "{mails:?}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_plan_can_be_cancelled_or_replaced_without_money() {
    selling_three(async |app| {
        let (customer, client) = app.subscriber_of(json!({"plan_id": BIG_PLAN}), GOOD_CARD).await;
        let invoices = app.invoices().await;
        let mut seen = Vec::new();
        for plan in [PLAN, PLAN, MID_PLAN, BIG_PLAN, PLAN, MID_PLAN] {
            // Entries with the same time have no order.
            app.advance_seconds(1);
            let reply = choose(&client, plan).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            seen.push(reply.json()["next_plan_id"].as_str().unwrap().to_owned());
            assert_eq!(reply.json()["plan_id"], BIG_PLAN);
        }

        assert_eq!(seen, [PLAN, PLAN, MID_PLAN, BIG_PLAN, PLAN, MID_PLAN]);
        assert_eq!(app.invoices().await, invoices);
        assert_eq!(app.prorations_asked().await, ["none"; 5]);
        let audit = async |action: &str| {
            let list = client.get(&format!("/v1/audit?action={action}")).await.json();
            list["entries"].as_array().unwrap().clone()
        };
        let pending = audit("plan.change_pending").await;
        let taken_back = audit("plan.change_taken_back").await;
        assert_eq!((pending.len(), taken_back.len()), (4, 1));
        assert_eq!(pending[0]["details"]["plan_id"], MID_PLAN, "{pending:?}");
        assert_eq!(pending[0]["details"]["plan_id_before"], BIG_PLAN);
        assert_eq!(taken_back[0]["actor"], json!(customer.key_id));
        assert!(audit("plan.changed").await.is_empty());
        let metadata = app.subscription().await["metadata"].clone();
        assert_eq!(metadata["paid_plan"], BIG_PLAN, "{metadata}");
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_while_a_downgrade_is_pending_is_priced_from_the_paid_plan() {
    selling_three(async |app| {
        let client = mid_subscriber(&app).await;
        assert_eq!(choose(&client, PLAN).await.status, 200);
        app.advance_seconds(15 * DAY_S);

        let changed = choose(&client, BIG_PLAN).await;
        app.deliver().await;

        assert_eq!(changed.status, 200, "{}", changed.text());
        assert_eq!(changed.json()["charged_cents"], (9_900 - 4_900) / 2);
        assert_eq!(changed.json()["credits_granted"], (5_000 - 2_500) / 2);
        assert_eq!(plans_of(&client).await, (json!(BIG_PLAN), json!(BIG_PLAN)));
        assert_eq!(app.prorations_asked().await, ["none", "none", "always_invoice"]);
        assert_eq!(app.subscription().await["metadata"]["paid_plan"], Value::Null);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_ends_keeps_its_end_and_its_pending_plan_until_an_upgrade() {
    selling_three(async |app| {
        let client = mid_subscriber(&app).await;
        assert_eq!(choose(&client, PLAN).await.status, 200);
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        let cancel = async |is_ending: bool| {
            let form = format!("cancel_at_period_end={is_ending}");
            app.at_processor("POST", &format!("subscriptions/{id}"), &form).await;
            app.deliver().await;
        };

        cancel(true).await;
        let ending = subscription_of(&client).await;
        let upgraded = choose(&client, BIG_PLAN).await.json();
        assert_eq!(choose(&client, PLAN).await.status, 200);
        cancel(false).await;

        assert_eq!((&ending["plan_id"], &ending["next_plan_id"]), (&json!(MID_PLAN), &Value::Null));
        assert_eq!(ending["next_plan"], Value::Null);
        assert_eq!(
            (&upgraded["plan_id"], &upgraded["cancel_at_period_end"], &upgraded["next_plan_id"]),
            (&json!(BIG_PLAN), &json!(true), &Value::Null)
        );
        assert_eq!(plans_of(&client).await, (json!(BIG_PLAN), json!(PLAN)));
        app
    })
    .await;
}

/// Both lines of the invoice are zero, yet the more expensive plan applies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_in_the_last_second_applies_although_it_costs_nothing() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let end = subscription_of(&client).await["current_period_end"].clone();
        app.advance_seconds(30 * DAY_S - 2);

        let changed = choose(&client, BIG_PLAN).await;
        app.deliver().await;

        assert_eq!(changed.status, 200, "{}", changed.text());
        assert_eq!(changed.json()["charged_cents"], 0);
        assert_eq!(plans_of(&client).await, (json!(BIG_PLAN), json!(BIG_PLAN)));
        assert_eq!(subscription_of(&client).await["current_period_end"], end);
        // A fraction of a credit is rounded up.
        assert_eq!(changed.json()["credits_granted"], 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_of_a_plan_shows_cost_and_credits_and_is_valid_for_ten_minutes() {
    selling_three(async |app| {
        let client = mid_subscriber(&app).await;
        for creator in ["a", "b", "c", "d"] {
            app.import(&client, "platform_alpha", creator).await;
        }
        let preview = async |plan: &str| {
            let path = format!("/v1/billing/subscription/plan/preview?plan_id={plan}");
            client.get(&path).await
        };
        app.advance_seconds(15 * DAY_S - 4);

        let up = preview(BIG_PLAN).await.json();
        app.advance_seconds(600);
        let changed = choose(&client, BIG_PLAN).await.json();
        let down = preview(PLAN).await.json();
        let none = preview(BIG_PLAN).await.json();
        assert_eq!(choose(&client, PLAN).await.status, 200);
        let back = preview(BIG_PLAN).await.json();

        assert_eq!(
            (&up["charged_now_cents"], &up["credited_cents"]),
            (&json!(2_500), &json!(2_450))
        );
        assert_eq!((&up["credits_granted"], &up["over_limit"]), (&json!(1_250), &json!([])));
        assert_eq!(up["effective_at"], up["proration_date"]);
        assert_eq!(changed["charged_cents"], up["charged_now_cents"]);
        assert_eq!(changed["credits_granted"], up["credits_granted"]);
        let line = app.invoices().await.remove(0)["lines"]["data"][0]["period"]["start"].clone();
        let date = domain::time::Timestamp::from_rfc3339(up["proration_date"].as_str().unwrap());
        assert_eq!(line, date.unwrap().unix_seconds());
        assert_eq!((&down["charged_now_cents"], &down["credits_granted"]), (&json!(0), &json!(0)));
        assert_eq!(down["effective_at"], down["period_end"]);
        assert_eq!(down["over_limit"][0]["creator_id"], "d", "{down}");
        for unchanged in [none, back] {
            assert_eq!(unchanged["charged_now_cents"], 0);
            assert_eq!(unchanged["effective_at"], unchanged["proration_date"]);
        }
        assert_eq!(preview("plan_gold").await.failure(), (404, "not_found".to_owned()));
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_while_a_downgrade_is_pending_is_priced_from_the_paid_plan() {
    selling_three(async |app| {
        let client = mid_subscriber(&app).await;
        assert_eq!(choose(&client, PLAN).await.status, 200);
        app.advance_seconds(15 * DAY_S);
        let path = format!("/v1/billing/subscription/plan/preview?plan_id={BIG_PLAN}");

        let preview = client.get(&path).await.json();
        let changed = choose(&client, BIG_PLAN).await.json();

        assert_eq!(preview["charged_now_cents"], 2_500, "{preview}");
        assert_eq!(
            (&preview["credited_cents"], &preview["credits_granted"]),
            (&json!(2_450), &json!(1_250))
        );
        assert_eq!(changed["charged_cents"], 2_500);
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_of_a_switch_equals_the_next_invoice() {
    selling(async |app| {
        let choice = json!({"plan_id": PLAN, "slots": {"platform_alpha": 1}});
        let (_, client) = app.subscriber_of(choice, GOOD_CARD).await;
        app.advance_seconds(15 * DAY_S);
        let path = "/v1/billing/slots/switch/preview?from=platform_alpha&to=platform_beta";

        let preview = client.get(path).await.json();
        app.advance_seconds(300);
        let switch = json!({"from": "platform_alpha", "to": "platform_beta"});
        let switched = client.post("/v1/billing/slots/switch", &switch).await;

        assert_eq!(switched.status, 200, "{}", switched.text());
        assert_eq!(preview["next_invoice_cents"], (1_600 - 1_000) / 2, "{preview}");
        let items = app.at_processor("GET", "invoiceitems?pending=true&limit=100", "").await;
        let waiting = items["data"].as_array().unwrap().iter();
        let sum: i64 = waiting.map(|item| item["amount"].as_i64().unwrap()).sum();
        assert_eq!(sum, 300, "{items}");
        let same = "/v1/billing/slots/switch/preview?from=platform_beta&to=platform_beta";
        assert_eq!(client.get(same).await.wrong_fields()[0].0, "query.to");
        let gamma = "/v1/billing/slots/switch/preview?from=platform_gamma&to=platform_beta";
        assert_eq!(client.get(gamma).await.wrong_fields()[0].0, "query.from");
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test]
async fn a_preview_right_after_a_renewal_waits_for_no_event() {
    selling(async |app| {
        let (_, client) = app.subscriber(GOOD_CARD).await;
        // The processor renews, and none of its events arrives.
        app.control("clock", json!({"advance_months": 1})).await;
        app.advance_seconds(31 * DAY_S);

        let path = format!("/v1/billing/subscription/plan/preview?plan_id={BIG_PLAN}");
        let preview = client.get(&path).await;

        assert_eq!(preview.status, 200, "{}", preview.text());
        app
    })
    .await;
}
