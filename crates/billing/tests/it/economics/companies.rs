//! The scenarios once more, as companies buy: with automatic tax, promotion codes, and invoices for
//! packs. The model computes what it expects of each anew.

use serde_json::{Value, json};

use super::scenario::{Catalogue, Scenario, Selling, vectors};
use super::side::{all, replayed};
use super::world::World;

/// The tax, in hundredths of a percent, and the percent that promotion codes take off.
const TAX_BP: i64 = 1_900;
const OFF: i64 = 20;
/// The country whose tax the simulated processor is told.
const COUNTRY: &str = "ZZ";

/// The scenario with tax on everything, and a code on every page; without codes where a refund of
/// the whole price would be more than what was paid.
fn as_company(scenario: &Scenario, catalogue: &Catalogue) -> Scenario {
    let codes = with_tax(scenario, catalogue, Some(OFF));
    codes.or_else(|| with_tax(scenario, catalogue, None)).unwrap()
}

/// The scenario with tax, and with codes for this percentage. Automatic top-up is charged without
/// tax, so that scenarios with it have codes only.
fn with_tax(scenario: &Scenario, catalogue: &Catalogue, off: Option<i64>) -> Option<Scenario> {
    let mut events = scenario.events();
    let has_top_ups = events.iter().any(|event| event["do"] == "auto_topup");
    for event in &mut events {
        let is_purchase = event["do"] == "subscribe" || event["do"] == "buy_pack";
        if let (true, Some(off)) = (is_purchase && event["off"].is_null(), off) {
            event["off"] = json!(off);
        }
    }
    if !has_top_ups {
        let first = events[0]["t"].clone();
        events.insert(0, json!({"t": first, "do": "set_tax", "bp": TAX_BP}));
    }
    let input = json!({"name": scenario.name, "retries": scenario.retries, "events": events});
    Some(Scenario { selling: Selling::ToCompanies, ..replayed(&input, catalogue)? })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scenario_agrees_with_tax_codes_and_pack_invoices() {
    let (catalogue, scenarios) = vectors();
    let every = store::testing::samples(5, 1);
    // With automatic tax the processor computes the tax of a credit note itself.
    let without_notes = |one: &&Scenario| one.steps.iter().all(|step| step.what() != "note");
    let companies: Vec<Scenario> = scenarios
        .iter()
        .filter(without_notes)
        .step_by(every)
        .map(|one| as_company(one, &catalogue))
        .collect();
    if let Some((_, told)) = all(companies, &catalogue).await {
        panic!("differs from the model:\n{told}");
    }
}

impl World {
    /// Enters what a company enters on a page: its country and name, and a promotion code.
    pub(super) async fn enter_details(&self, pay: &mut Value, percent: Option<i64>) {
        pay["country"] = json!(COUNTRY);
        pay["name"] = json!("Ada & Co.");
        let Some(percent) = percent else { return };
        let discount = format!("percent_off={percent}&duration=forever");
        let coupon = self.app.at_processor("POST", "coupons", &discount).await;
        let form = format!(
            "promotion[type]=coupon&promotion[coupon]={}&max_redemptions=1",
            coupon["id"].as_str().unwrap()
        );
        let code = self.app.at_processor("POST", "promotion_codes", &form).await;
        pay["promotion_code"] = code["code"].clone();
    }

    /// Asserts that the service shows every invoice of the processor as it is there. It knows them
    /// from events only, because a listing at the processor counts as just made.
    pub(super) async fn check_invoices(&self) {
        let now = self.app.clock.now();
        let customer = self.customer.id.parse().unwrap();
        let claimed = store::invoices::claim_listing(self.app.store(), customer, now, now).await;
        assert_eq!(claimed.unwrap(), store::invoices::ListingClaim::First);
        let mut expected: Vec<Value> = self
            .all_at_processor("invoices", "")
            .await
            .iter()
            .filter(|invoice| invoice["status"] != "draft")
            .map(|invoice| {
                let tax = invoice["total"].as_i64().unwrap()
                    - invoice["total_excluding_tax"].as_i64().unwrap();
                json!([
                    invoice["id"],
                    invoice["number"],
                    invoice["status"],
                    invoice["total"],
                    tax,
                    invoice["amount_due"],
                    invoice["amount_paid"],
                    invoice["lines"]["total_count"],
                ])
            })
            .collect();
        let mut shown = Vec::new();
        let mut path = "/v1/billing/invoices?limit=100".to_owned();
        loop {
            let page = self.client.get(&path).await.json();
            for invoice in page["invoices"].as_array().unwrap() {
                shown.push(json!([
                    invoice["invoice_id"],
                    invoice["number"],
                    invoice["status"],
                    invoice["amount_cents"],
                    invoice["tax_cents"],
                    invoice["due_cents"],
                    invoice["paid_cents"],
                    invoice["lines"].as_array().unwrap().len(),
                ]));
            }
            let Some(next) = page["next_before"].as_str() else { break };
            path = format!("/v1/billing/invoices?limit=100&before={next}");
        }
        expected.sort_by_key(Value::to_string);
        shown.sort_by_key(Value::to_string);
        assert_eq!(shown, expected, "the invoices differ from the processor's");
    }
}
