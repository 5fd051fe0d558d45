//! Versions of plans: a subscriber keeps a plan as it was sold, whatever happens to the offer.

use domain::platform::Platform;
use serde_json::{Value, json};
use settings::billing::Plan;
use test_service::subscriber::{
    BIG_PLAN, GOOD_CARD, MID_PLAN, PLAN, choose, plans_of, selling, selling_three,
    subscription_of as state,
};
use test_service::{Client, TestApp};

/// The processor's prices for a plan, oldest first.
async fn prices(app: &TestApp, plan: &str) -> Vec<Value> {
    let list = app.at_processor("GET", "prices?limit=100", "").await;
    let all = list["data"].as_array().unwrap().iter().rev();
    all.filter(|price| price["metadata"]["plan_id"] == plan).cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_processors_price_names_the_version_it_sells() {
    selling(async |app| {
        app.subscriber(GOOD_CARD).await;

        let prices = prices(&app, PLAN).await;

        assert_eq!(prices.len(), 1, "{prices:?}");
        let metadata = json!({
            "plan_id": PLAN, "monthly_credits": "1000",
            "accounts": "platform_alpha=2,platform_beta=2,platform_gamma=0,platform_delta=0",
        });
        assert_eq!(prices[0]["metadata"], metadata);
        let word = "creator_gateway_plan_plan_small_2900_1000_2-2-0-0_usd_month";
        assert_eq!(prices[0]["lookup_key"], word);
        let known = store::plan_versions::find(app.store(), prices[0]["id"].as_str().unwrap());
        let version = known.await.unwrap().unwrap();
        assert_eq!((version.price_cents, version.monthly_credits), (2_900, 1_000));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_keep_the_accounts_of_a_plan_that_is_edited_or_removed() {
    selling(async |mut app| {
        let (customer, client) = app.subscriber(GOOD_CARD).await;
        let before = state(&client).await;
        let shown = async |on: &TestApp| state(&on.with_key(&customer.key)).await;
        app.stop_service().await;
        app.start_service(|config| {
            let plan = &mut config.plans[0];
            (plan.price_cents, plan.monthly_credits) = (3_900, 7);
            plan.platforms.set(Platform::ALPHA, 1);
        })
        .await
        .unwrap();
        let edited = shown(&app).await;
        app.stop_service().await;
        app.start_service(|config| drop(config.plans.remove(0))).await.unwrap();
        app.deliver().await;
        let removed = shown(&app).await;

        assert_eq!(before["entitlements"]["platform_alpha"], 3);
        assert_eq!(edited["entitlements"], before["entitlements"]);
        assert_eq!(removed["entitlements"], before["entitlements"]);
        assert_eq!(removed["plan_id"], PLAN);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_customer_buys_the_edited_plan_at_a_new_price() {
    selling(async |mut app| {
        let (customer, _) = app.subscriber(GOOD_CARD).await;
        app.stop_service().await;
        app.start_service(|config| config.plans[0].monthly_credits = 1_500).await.unwrap();
        let (_, second) = app.subscriber(GOOD_CARD).await;
        let first = app.with_key(&customer.key);

        assert_eq!(prices(&app, PLAN).await.len(), 2);
        let credits =
            async |client: &Client| client.get("/v1/billing").await.json()["balance"].clone();
        assert_eq!((credits(&first).await, credits(&second).await), (json!(1_000), json!(1_500)));
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retired_plan_is_neither_listed_nor_sold_but_its_subscribers_keep_it() {
    selling(async |mut app| {
        let (customer, _) = app.subscriber(GOOD_CARD).await;
        app.stop_service().await;
        app.start_service(|config| config.plans[0].retired = true).await.unwrap();
        let client = app.with_key(&customer.key);
        let newcomer = app.with_key(&app.customer(0).await.key);

        let offer = client.get("/v1/billing/subscriptions/plans").await.json();
        let wanted = newcomer.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        app.months_pass(1).await;

        let listed: Vec<_> =
            offer["bundles"].as_array().unwrap().iter().map(|plan| &plan["plan_id"]).collect();
        assert_eq!(listed, [BIG_PLAN]);
        assert_eq!(wanted.failure(), (404, "not_found".to_owned()));
        let after = state(&client).await;
        assert_eq!((&after["status"], &after["plan_id"]), (&json!("active"), &json!(PLAN)));
        assert_eq!(after["entitlements"]["platform_alpha"], 3);
        assert_eq!(after["balance"], 2_000);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_price_that_was_sold_on_other_terms_prevents_the_start() {
    selling(async |mut app| {
        app.subscriber(GOOD_CARD).await;
        let sold = prices(&app, PLAN).await[0]["id"].as_str().unwrap().to_owned();
        app.stop_service().await;
        for change in [0_usize, 1, 2] {
            let refused = app.start_service(|config| {
                let plan = &mut config.plans[0];
                plan.price_id.clone_from(&sold);
                match change {
                    0 => plan.monthly_credits += 1,
                    1 => plan.price_cents += 1,
                    _ => {
                        plan.platforms.set(Platform::GAMMA, plan.platforms.of(Platform::GAMMA) + 1);
                    }
                }
            });

            let text = refused.await.unwrap_err();
            assert!(text.contains("plans[0].price_id") && text.contains(&sold), "{text}");
        }
        app.start_service(|config| config.plans[0].price_id.clone_from(&sold)).await.unwrap();
        app.deliver().await;
        app
    })
    .await;
}

/// Prices from before versions existed name only the plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_price_without_a_version_sells_the_configured_plan_while_the_amounts_agree() {
    selling(async |app| {
        let product = "creator_gateway_plan_plan_small";
        app.at_processor("POST", "products", &format!("id={product}&name=Small")).await;
        let price = async |cents: i64| {
            let form = format!(
                "product={product}&unit_amount={cents}&currency=usd&recurring[interval]=month&metadata[plan_id]={PLAN}"
            );
            app.at_processor("POST", "prices", &form).await["id"].as_str().unwrap().to_owned()
        };
        let (same, other) = (price(2_900).await, price(4_900).await);
        let (_, client) = app.subscriber(GOOD_CARD).await;
        let item = app.subscription().await["items"]["data"][0]["id"].as_str().unwrap().to_owned();
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        let put = async |wanted: &str| {
            let form = format!("items[0][id]={item}&items[0][price]={wanted}&proration_behavior=none");
            app.at_processor("POST", &format!("subscriptions/{id}"), &form).await;
            app.deliver().await;
        };

        put(&same).await;
        let known = store::plan_versions::find(app.store(), &same).await.unwrap();
        put(&other).await;
        let unknown = store::plan_versions::find(app.store(), &other).await.unwrap();

        assert_eq!(known.map(|version| version.monthly_credits), Some(1_000));
        assert_eq!(unknown, None);
        assert_eq!(state(&client).await["plan_id"], PLAN);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_to_an_unknown_version_prevents_the_start() {
    selling(async |mut app| {
        app.subscriber(GOOD_CARD).await;
        let item = app.subscription().await["items"]["data"][0]["id"].as_str().unwrap().to_owned();
        let id = app.subscription().await["id"].as_str().unwrap().to_owned();
        app.at_processor("POST", "products", "id=creator_gateway_plan_old&name=Old").await;
        let new = "product=creator_gateway_plan_old&unit_amount=100&currency=usd&recurring[interval]=month";
        let price = app.at_processor("POST", "prices", new).await["id"].as_str().unwrap().to_owned();
        let form = format!("items[0][id]={item}&items[0][price]={price}&proration_behavior=none");
        app.at_processor("POST", &format!("subscriptions/{id}"), &form).await;
        app.deliver().await;
        app.stop_service().await;

        let refused = app.start_service(|_| {}).await.unwrap_err();
        app.start_service(|config| {
            let old = config.plans[0].clone();
            let old = Plan { id: "old".to_owned(), price_cents: 100, retired: true, ..old };
            config.plans.push(old);
        })
        .await
        .unwrap();

        assert!(refused.contains(&price) && refused.contains("`old`"), "{refused}");
        assert!(refused.contains("monthly_credits"), "{refused}");
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn choosing_ones_own_plan_again_changes_to_its_new_version() {
    selling(async |mut app| {
        let (customer, _) = app.subscriber(GOOD_CARD).await;
        for (cents, credits, is_at_once) in [(3_900, 1_500, true), (2_900, 1_500, false)] {
            app.stop_service().await;
            // A restarted service draws the same random bytes; a later time makes its ids differ.
            app.advance_seconds(1);
            app.start_service(|config| {
                (config.plans[0].price_cents, config.plans[0].monthly_credits) = (cents, credits);
            })
            .await
            .unwrap();
            let client = app.with_key(&customer.key);

            let chosen = choose(&client, PLAN).await.json();
            let again = choose(&client, PLAN).await.json();

            let paid = if is_at_once { cents } else { 3_900 };
            assert_eq!(chosen["plan"]["price_cents"], paid, "{chosen}");
            assert_eq!(chosen["next_plan"]["price_cents"], cents);
            assert_eq!(chosen["charged_cents"], if is_at_once { 1_000 } else { 0 });
            // Choosing the plan once more cancels a pending version.
            assert_eq!(again["next_plan"]["price_cents"], paid);
        }
        app.deliver().await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retired_plan_cannot_be_chosen_but_a_pending_change_from_it_can_be_cancelled() {
    selling_three(async |mut app| {
        let choice = json!({"plan_id": MID_PLAN});
        let (customer, _) = app.subscriber_of(choice, GOOD_CARD).await;
        app.stop_service().await;
        app.start_service(|config| {
            for plan in &mut config.plans {
                plan.retired = plan.id != PLAN;
            }
        })
        .await
        .unwrap();
        let client = app.with_key(&customer.key);

        let retired = choose(&client, BIG_PLAN).await;
        let unchanged = choose(&client, MID_PLAN).await;
        let cheaper = choose(&client, PLAN).await;
        let pending = plans_of(&client).await;
        let kept = choose(&client, MID_PLAN).await;

        assert_eq!(retired.failure(), (404, "not_found".to_owned()));
        assert_eq!((unchanged.status, cheaper.status, kept.status), (200, 200, 200));
        assert_eq!(pending, (json!(MID_PLAN), json!(PLAN)));
        assert_eq!(plans_of(&client).await, (json!(MID_PLAN), json!(MID_PLAN)));
        app.deliver().await;
        app
    })
    .await;
}

/// A subscription to another product of the same customer at the processor does not concern us.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_to_another_product_is_ignored() {
    selling(async |app| {
        let (customer, client) = app.with_card(GOOD_CARD).await;
        let payer = app.at_processor("GET", "customers?limit=1", "").await["data"][0]["id"].clone();
        let product = app.at_processor("POST", "products", "name=Hosting").await;
        let form = format!(
            "product={}&unit_amount=500&currency=usd&recurring[interval]=month",
            product["id"].as_str().unwrap()
        );
        let price = app.at_processor("POST", "prices", &form).await;
        let items = format!(
            "customer={}&items[0][price]={}",
            payer.as_str().unwrap(),
            price["id"].as_str().unwrap()
        );
        app.at_processor("POST", "subscriptions", &items).await;
        app.deliver().await;

        let before = state(&client).await;
        let page = client.post("/v1/billing/subscribe", &json!({"plan_id": PLAN})).await;
        app.pay(&page, GOOD_CARD).await;
        app.deliver().await;

        assert_eq!(before["status"], "none", "{}", customer.id);
        assert_eq!(page.status, 200, "{}", page.text());
        assert_eq!(plans_of(&client).await.0, PLAN);
        app
    })
    .await;
}
