//! The sequences with which the processor's command-line client brings about events, in
//! `tests/sequences/`: every one runs, and its events follow.

use std::collections::HashMap;

use serde_json::Value;

use crate::kit::Shop;

const FILES: [(&str, &str); 5] = [
    ("payments", include_str!("../sequences/payments.txt")),
    ("customers", include_str!("../sequences/customers.txt")),
    ("invoices", include_str!("../sequences/invoices.txt")),
    ("subscriptions", include_str!("../sequences/subscriptions.txt")),
    ("others", include_str!("../sequences/others.txt")),
];
/// How many the client has, besides two about meters, which use another host and another kind of
/// event.
const SEQUENCES: usize = 119;

/// The events that must follow, and what is done before.
struct Sequence<'a> {
    events: Vec<&'a str>,
    version: &'a str,
    steps: Vec<&'a str>,
}

fn sequences(text: &str) -> Vec<Sequence<'_>> {
    let mut all: Vec<Sequence<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(step) = line.strip_prefix("  ") {
            all.last_mut().unwrap().steps.push(step);
            continue;
        }
        let (events, version) = line.split_once(" @").unwrap_or((line, "2026-03-25.dahlia"));
        all.push(Sequence { events: events.split(", ").collect(), version, steps: Vec::new() });
    }
    all
}

/// Fills in the kept values: `{name}` or `{name.path}`.
fn filled(step: &str, kept: &HashMap<String, Value>) -> String {
    let mut filled = String::new();
    let mut rest = step;
    while let Some((before, behind)) = rest.split_once('{') {
        let (path, behind) = behind.split_once('}').unwrap();
        let (name, path) = path.split_once('.').unwrap_or((path, "id"));
        let pointer = format!("/{}", path.replace('.', "/"));
        let value = kept[name].pointer(&pointer).and_then(Value::as_str);
        filled.push_str(before);
        filled.push_str(value.unwrap_or_else(|| panic!("{step}: no {path} in {}", kept[name])));
        rest = behind;
    }
    filled + rest
}

/// Runs one request; returns the response, or what is wrong.
async fn ask(shop: &Shop, version: &str, request: &str) -> Result<Value, String> {
    let (request, status) = request.split_once(" = ").unwrap_or((request, "200"));
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let form = words.collect::<Vec<_>>().join("&");
    let headers = format!(
        "{}Stripe-Version: {version}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        shop.key()
    );
    let reply = shop.raw(&format!("{method} /v1/{path}"), &headers, &form).await;
    if reply.status.to_string() == status {
        Ok(reply.json())
    } else {
        Err(format!("{request}: {} {}", reply.status, reply.text))
    }
}

async fn run(shop: &Shop, sequence: &Sequence<'_>) -> Result<(), String> {
    let before = shop.events().await.len();
    let mut kept = HashMap::new();
    for step in &sequence.steps {
        if let Some(seconds) = step.strip_prefix("wait ") {
            shop.clock.advance_ms(seconds.parse::<i64>().unwrap() * 1_000);
            continue;
        }
        let (name, request) = match step.split_once(": ") {
            Some((name, request)) => (Some(name), request),
            None => (None, *step),
        };
        let response = ask(shop, sequence.version, &filled(request, &kept)).await?;
        kept.extend(name.map(|name| (name.to_owned(), response)));
    }
    // A request makes the processor look at its clock.
    shop.read("customers?limit=1").await;
    let followed = shop.events().await.split_off(before);
    match sequence.events.iter().find(|wanted| !followed.iter().any(|event| event == *wanted)) {
        None => Ok(()),
        Some(missing) => Err(format!("{missing} did not follow, but {followed:?}")),
    }
}

#[tokio::test]
async fn every_sequence_of_the_command_line_client_runs_and_its_events_follow() {
    let shop = Shop::open();
    let (mut count, mut problems) = (0, Vec::new());
    for (name, text) in FILES {
        for sequence in sequences(text) {
            count += 1;
            if let Err(problem) = run(&shop, &sequence).await {
                problems.push(format!("{name}: {:?}: {problem}", sequence.events));
            }
        }
    }

    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(count, SEQUENCES);
    shop.close().await;
}

#[tokio::test]
async fn objects_described_by_data_are_checked_like_all_others() {
    let shop = Shop::open();
    let missing = shop.refused("tax_rates", "display_name=VAT&inclusive=true", 400).await;
    let unknown = shop.refused("topups", "amount=900&currency=usd&speed=fast", 400).await;
    let number = shop.refused("payouts", "amount=many&currency=usd", 400).await;
    let nobody = shop.refused("issuing/cards", "currency=usd&type=virtual&cardholder=ich_0", 400);
    let nobody = nobody.await;
    let session = shop.done("identity/verification_sessions", "type=document").await;
    let session = session["id"].as_str().unwrap();
    shop.done(&format!("identity/verification_sessions/{session}/cancel"), "").await;
    let twice = format!("identity/verification_sessions/{session}/cancel");
    let twice = shop.refused(&twice, "", 400).await;
    let account = shop.done("accounts", "").await["id"].as_str().unwrap().to_owned();
    let transfer = format!("amount=900&currency=usd&destination={account}");
    let transfer = shop.done("transfers", &transfer).await["id"].as_str().unwrap().to_owned();
    let back = format!("transfers/{transfer}/reversals");
    shop.done(&back, "amount=800").await;
    let too_much = shop.refused(&back, "amount=101", 400).await;

    assert_eq!(missing["param"], "percentage");
    assert_eq!(unknown["code"], "parameter_unknown");
    assert_eq!(number["code"], "parameter_invalid_integer");
    assert_eq!(nobody["code"], "resource_missing");
    assert!(twice["message"].as_str().unwrap().contains("canceled"), "{twice}");
    assert_eq!(too_much["param"], "amount");
    assert_eq!(shop.read(&format!("transfers/{transfer}")).await["amount_reversed"], 800);
    shop.close().await;
}

#[tokio::test]
async fn steps_out_of_order_are_refused() {
    let shop = Shop::open();
    let intent = "amount=900&capture_method=manual&confirm=true&currency=usd&payment_method=pm_card_visa&payment_method_types[0]=card";
    let intent = shop.done("payment_intents", intent).await["id"].as_str().unwrap().to_owned();
    let early = shop.refused("refunds", &format!("payment_intent={intent}"), 400).await;
    let capture = format!("payment_intents/{intent}/capture");
    let too_much = shop.refused(&capture, "amount_to_capture=901", 400).await;
    shop.done(&capture, "amount_to_capture=700").await;
    let twice = shop.refused(&capture, "", 400).await;
    let refund = shop.done("refunds", &format!("payment_intent={intent}")).await;
    let customer = shop.done("customers", "").await["id"].as_str().unwrap().to_owned();
    let item = format!("customer={customer}&amount=900&currency=usd");
    let item = shop.done("invoiceitems", &item).await["id"].as_str().unwrap().to_owned();
    let invoice = format!("customer={customer}&pending_invoice_items_behavior=include");
    let invoice = shop.done("invoices", &invoice).await["id"].as_str().unwrap().to_owned();
    let billed = shop.delete(&format!("invoiceitems/{item}")).await;
    let unpaid = shop.refused(&format!("invoices/{invoice}/pay"), "", 400).await;
    let finalized = shop.delete(&format!("invoices/{invoice}")).await;
    let coupon = shop.done("coupons", "percent_off=20").await["id"].as_str().unwrap().to_owned();
    let old = shop.refused("customers", &format!("coupon={coupon}"), 400).await;

    assert!(early["message"].as_str().unwrap().contains("successful charge"), "{early}");
    assert_eq!(too_much["code"], "amount_too_large");
    assert_eq!(twice["code"], "payment_intent_unexpected_state");
    assert_eq!(refund["amount"], 700, "only what was taken goes back");
    assert_eq!(billed.status, 400);
    assert_eq!(unpaid["code"], "resource_missing", "there is no card");
    assert_eq!(finalized.status, 400, "{}", finalized.text);
    assert_eq!(old["code"], "parameter_unknown", "today's version calls it otherwise");
    shop.close().await;
}

#[tokio::test]
async fn what_was_deleted_stays_deleted_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = simulator_kit::SimulatorClock::manual(crate::kit::NOW_MS);
    let shop = Shop::on_folder(folder.path(), clock.clone());
    let product = shop.done("products", "name=pack").await["id"].as_str().unwrap().to_owned();
    let gone = shop.delete(&format!("products/{product}")).await;
    shop.close().await;
    let again = Shop::on_folder(folder.path(), clock);
    let after = again.get(&format!("products/{product}")).await;

    assert_eq!((gone.status, after.status), (200, 404));
    again.close().await;
}

#[tokio::test]
async fn a_schedule_moves_its_subscription_from_phase_to_phase() {
    let shop = Shop::open();
    let (customer, _) = shop.customer("pm_card_visa").await;
    let product = shop.done("products", "name=seats").await["id"].as_str().unwrap().to_owned();
    let price =
        format!("product={product}&unit_amount=1000&currency=usd&recurring[interval]=month");
    let price = shop.done("prices", &price).await["id"].as_str().unwrap().to_owned();
    let phases = format!(
        "customer={customer}&start_date=now&end_behavior=cancel&phases[0][items][0][price]={price}&phases[1][items][0][price]={price}&phases[1][items][0][quantity]=3"
    );
    let schedule = shop.done("subscription_schedules", &phases).await;
    let subscription =
        format!("subscriptions/{}", schedule["subscription"].as_str().unwrap().to_owned());
    let month_ms = 31 * 86_400_000;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let now = shop.read(&subscription).await;
        seen.push((now["status"].clone(), now["items"]["data"][0]["quantity"].clone()));
        shop.clock.advance_ms(month_ms);
    }

    assert_eq!(seen[0], ("active".into(), 1.into()));
    assert_eq!(seen[1], ("active".into(), 3.into()));
    assert_eq!(seen[2].0, "canceled");
    shop.close().await;
}
