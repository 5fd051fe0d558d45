//! Scenarios: events, and what the reference model expects after each.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder of the reference model.
pub(super) fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference")
}

/// The catalogue for sale: `packs`, `plans`, `slots` and `trial`, as in `vectors.json`.
#[derive(Debug, Clone)]
pub(super) struct Catalogue(Value);

/// A sequence of events with the model's expectations.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) name: String,
    /// The seconds after which an unpaid invoice is retried.
    pub(super) retries: Vec<i64>,
    pub(super) steps: Vec<Step>,
    /// How packs and plans are sold.
    pub(super) selling: Selling,
}

/// How packs and plans are sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selling {
    /// As by default.
    Plain,
    /// With an invoice for each pack.
    WithInvoices,
    /// With automatic tax, tax ids, promotion codes and invoices for packs.
    ToCompanies,
}

impl Selling {
    /// The settings for it.
    pub(super) const fn configuration(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::WithInvoices => "[billing]\npack_invoices = true\n",
            Self::ToCompanies => {
                "[billing]\npromotion_codes = true\npack_invoices = true\n\
                 [billing.tax]\nautomatic = true\nbilling_address = true\ntax_ids = true\n"
            }
        }
    }
}

/// One event.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The time, in seconds since 1970.
    pub(super) at: i64,
    /// `do` and its arguments.
    pub(super) event: Value,
    /// The response expected by the model.
    pub(super) answer: String,
    /// The expected state after it.
    pub(super) expect: Value,
}

/// The catalogue and every scenario of `vectors.json`.
pub(super) fn vectors() -> (Catalogue, Vec<Scenario>) {
    let text = std::fs::read_to_string(reference().join("vectors.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let catalogue = Catalogue(file["catalogue"].clone());
    let scenarios = file["scenarios"].as_array().unwrap().iter();
    let scenarios = scenarios.map(|one| Scenario::read(one, &catalogue)).collect();
    (catalogue, scenarios)
}

impl Scenario {
    /// Reads a scenario from `vectors.json`.
    pub(super) fn read(one: &Value, catalogue: &Catalogue) -> Self {
        let own = one["retries"].as_array().or_else(|| catalogue.0["retries"].as_array());
        let retries = own.unwrap().iter().map(|after| after.as_i64().unwrap()).collect();
        let steps = one["steps"].as_array().unwrap().iter().map(Step::read).collect();
        let name = one["name"].as_str().unwrap().to_owned();
        let steps: Vec<Step> = steps;
        let has = |what: &str| steps.iter().any(|step| step.what() == what);
        let selling =
            if has("note") && has("buy_pack") { Selling::WithInvoices } else { Selling::Plain };
        Self { name, retries, steps, selling }
    }

    /// Only its events, as input for the model.
    pub(super) fn events(&self) -> Vec<Value> {
        self.steps.iter().map(|step| step.event.clone()).collect()
    }
}

impl Step {
    fn read(step: &Value) -> Self {
        let mut event = step.clone();
        let fields = event.as_object_mut().unwrap();
        for told in ["answer", "expect", "note"] {
            fields.remove(told);
        }
        Self {
            at: step["t"].as_i64().unwrap(),
            event,
            answer: step["answer"].as_str().unwrap().to_owned(),
            expect: step["expect"].clone(),
        }
    }

    /// The kind of event.
    pub(super) fn what(&self) -> &str {
        self.event["do"].as_str().unwrap()
    }
}

/// The accounts that every customer has without a plan.
const INCLUDED: [(&str, i64); 4] = [("alpha", 1), ("beta", 1), ("gamma", 1), ("delta", 3)];

impl Catalogue {
    /// The configuration of a service with this catalogue.
    pub(super) fn configuration(&self) -> String {
        use std::fmt::Write as _;
        let mut toml = format!("[credits]\ntrial = {}\n[slots.included]\n", self.0["trial"]);
        for (platform, count) in INCLUDED {
            writeln!(toml, "platform_{platform} = {count}").unwrap();
        }
        toml.push_str("[slots.prices]\n");
        for (platform, cents) in self.0["slots"].as_object().unwrap() {
            writeln!(toml, "platform_{platform} = {{ price_cents = {cents}, price_id = \"\" }}")
                .unwrap();
        }
        for (id, pack) in self.0["packs"].as_object().unwrap() {
            let (cents, credits) = (&pack[0], &pack[1]);
            writeln!(toml, "[[packs]]\nid = \"{id}\"\nname = \"{id}\"\nprice_cents = {cents}\ncredits = {credits}")
                .unwrap();
        }
        for (id, plan) in self.0["plans"].as_object().unwrap() {
            let (cents, credits) = (&plan[0], &plan[1]);
            writeln!(toml, "[[plans]]\nid = \"{id}\"\nname = \"{id}\"\nprice_cents = {cents}\nmonthly_credits = {credits}")
                .unwrap();
            toml.push_str("platforms = { ");
            let accounts = plan[2].as_object().unwrap().iter();
            let accounts: Vec<_> =
                accounts.map(|(on, count)| format!("platform_{on} = {count}")).collect();
            writeln!(toml, "{} }}", accounts.join(", ")).unwrap();
        }
        toml
    }
}
