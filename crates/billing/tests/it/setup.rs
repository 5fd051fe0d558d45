//! Whether the payment processor is set up as the configuration needs it, and making it so.

use billing::webhook::EVENTS;
use operators::processor_setup::{ProcessorSetup, SetupFinding, SetupLevel};
use processor_client::ProcessorClient;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use settings::Config;
use test_service::TestApp;

const URL: &str = "https://gateway.example.com/v1/billing/webhook";

/// The service, its configuration with the simulated processor's prices, and a client.
async fn stage() -> (TestApp, Config, ProcessorClient) {
    let app = TestApp::on_sqlite("").await;
    let config = app.config().clone();
    let processor = config.processor.client().unwrap().unwrap();
    (app, config, processor)
}

async fn findings(config: &Config, processor: &ProcessorClient) -> Vec<SetupFinding> {
    ProcessorSetup { config, processor, webhook_url: URL }.check().await
}

/// The messages of problems about a setting.
fn problems<'a>(found: &'a [SetupFinding], subject: &str) -> Vec<&'a str> {
    let problems = found.iter().filter(|it| it.level == SetupLevel::Problem);
    problems.filter(|it| it.subject == subject).map(|it| it.message.as_str()).collect()
}

/// A price at the simulated processor.
async fn price(app: &TestApp, form: &str) -> String {
    let product = app.at_processor("POST", "products", "name=Plan").await;
    let form = format!("product={}&{form}", product["id"].as_str().unwrap());
    let made = app.at_processor("POST", "prices", &form).await;
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_prices_are_found_before_customers_find_them() {
    let (app, mut config, processor) = stage().await;
    let cents = config.plans[0].price_cents;
    let monthly = "currency=usd&recurring[interval]=month";
    let cases = [
        (format!("unit_amount={cents}&{monthly}"), ""),
        (format!("unit_amount={}&{monthly}", cents + 1), "cents instead of"),
        (format!("unit_amount={cents}&currency=eur&recurring[interval]=month"), "is in eur"),
        (format!("unit_amount={cents}&currency=usd&recurring[interval]=year"), "once a month"),
        (format!("unit_amount={cents}&currency=usd"), "once a month"),
    ];
    for (form, expected) in cases {
        config.plans[0].price_id = price(&app, &form).await;
        let found = findings(&config, &processor).await;
        let found = problems(&found, "plans[0].price_id");
        assert_eq!(found.is_empty(), expected.is_empty(), "{form}: {found:?}");
        assert!(found.iter().all(|message| message.contains(expected)), "{form}: {found:?}");
    }

    config.plans[0].price_id = "price_nowhere".to_owned();
    let form = format!("unit_amount={}&{monthly}", config.packs[0].price_cents);
    config.packs[0].price_id = price(&app, &form).await;
    let found = findings(&config, &processor).await;

    assert!(problems(&found, "plans[0].price_id")[0].contains("price_nowhere does not exist"));
    assert!(problems(&found, "packs[0].price_id")[0].contains("again and again"));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_the_other_mode_and_refused_keys_are_found() {
    let (app, mut config, processor) = stage().await;
    let key = "processor.secret_key";
    assert_eq!(problems(&findings(&config, &processor).await, key), [""; 0]);

    config.processor.livemode = true;
    let found = findings(&config, &processor).await;
    assert!(problems(&found, key)[0].contains("change one of them"), "{found:?}");

    config.processor.secret_key = "sk_test_unknown".to_owned().into();
    let stranger = config.processor.client().unwrap().unwrap();
    let refused = findings(&config, &stranger).await;
    assert_eq!((refused.len(), problems(&refused, key).len()), (1, 1), "{refused:?}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_endpoint_for_events_is_made_once_and_completed() {
    let (app, config, processor) = stage().await;
    let setup = ProcessorSetup { config: &config, processor: &processor, webhook_url: URL };
    let subject = "processor.webhook_secrets";
    let endpoints = async || {
        let all = app.at_processor("GET", "webhook_endpoints?limit=100", "").await;
        let all = all["data"].as_array().unwrap().clone();
        all.into_iter().filter(|endpoint| endpoint["url"] == URL).collect::<Vec<Value>>()
    };
    let now = || app.clock.now();
    assert!(problems(&setup.check().await, subject)[0].contains("no endpoint sends events"));

    let dry = setup.complete(now(), true).await.unwrap();
    assert_eq!((dry.done.len(), endpoints().await.len()), (2, 0));
    let made = setup.complete(now(), false).await.unwrap();
    let again = setup.complete(now(), false).await.unwrap();

    let secret = made.webhook_secret.unwrap();
    assert!(secret.expose_secret().starts_with("whsec_"));
    assert!(made.portal_configuration.is_some());
    assert_eq!(again.done, [""; 0]);
    let all = endpoints().await;
    assert_eq!((all.len(), all[0]["enabled_events"].as_array().unwrap().len()), (1, EVENTS.len()));
    assert_eq!(problems(&setup.check().await, subject), [""; 0]);

    let id = all[0]["id"].as_str().unwrap();
    let fewer = "enabled_events[0]=invoice.paid&enabled_events[1]=coupon.created&disabled=true";
    app.at_processor("POST", &format!("webhook_endpoints/{id}"), fewer).await;
    let found = setup.check().await;
    let found = problems(&found, subject);
    assert_eq!(found.len(), 2, "{found:?}");
    for event in ["refund.updated", "credit_note.created", "credit_note.voided"] {
        assert!(found[1].contains(event), "{found:?}");
    }
    assert!(!found[1].contains("invoice.paid"));
    app.advance_seconds(1);
    setup.complete(now(), false).await.unwrap();

    assert_eq!(problems(&setup.check().await, subject), [""; 0]);
    let enabled = endpoints().await[0]["enabled_events"].to_string();
    assert!(enabled.contains("coupon.created"), "what others use stays: {enabled}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_whose_secret_nobody_knows_is_replaced() {
    let (app, mut config, processor) = stage().await;
    config.processor.webhook_secrets = Vec::new();
    let setup = ProcessorSetup { config: &config, processor: &processor, webhook_url: URL };
    let subject = "processor.webhook_secrets";
    let ids = async || {
        let all = app.at_processor("GET", "webhook_endpoints?limit=100", "").await;
        let all = all["data"].as_array().unwrap().iter();
        let own = all.filter(|endpoint| endpoint["url"] == URL);
        own.map(|endpoint| endpoint["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let lost = json!({"kind": "error_after", "method": "POST", "path": "webhook_endpoints"});
    app.processor_fault(&lost).await;
    setup.complete(app.clock.now(), false).await.unwrap_err();
    let unknown = ids().await;
    assert_eq!(unknown.len(), 1);
    let found = setup.check().await;
    assert!(problems(&found, subject)[0].contains("processor setup"), "{found:?}");

    app.advance_seconds(1);
    let dry = setup.complete(app.clock.now(), true).await.unwrap();
    assert!(dry.done[0].contains(&unknown[0]), "{dry:?}");
    assert_eq!(ids().await, unknown);
    let made = setup.complete(app.clock.now(), false).await.unwrap();

    assert!(made.webhook_secret.unwrap().expose_secret().starts_with("whsec_"));
    let now = ids().await;
    assert_eq!(now.len(), 1);
    assert_ne!(now, unknown);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_portal_that_changes_plans_is_found() {
    let (app, mut config, processor) = stage().await;
    let subject = "processor.portal_configuration";
    let form = "features[subscription_update][enabled]=true\
                &features[subscription_update][default_allowed_updates][0]=quantity\
                &features[subscription_cancel][enabled]=true&features[subscription_cancel][mode]=immediately";
    let made = app.at_processor("POST", "billing_portal/configurations", form).await;
    config.processor.portal_configuration = made["id"].as_str().unwrap().to_owned();

    let found = findings(&config, &processor).await;
    let message = problems(&found, subject)[0];
    assert!(message.contains("change plans") && message.contains("immediately"), "{message}");
    config.processor.portal_configuration = "bpc_nowhere".to_owned();
    assert!(problems(&findings(&config, &processor).await, subject)[0].contains("bpc_nowhere"));
    app.end().await;
}
