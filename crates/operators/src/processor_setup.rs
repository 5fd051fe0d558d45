//! Whether the payment processor is set up as this deployment needs it, and making what is missing.
//!
//! A check only reads. It finds what customers would otherwise find: a price that costs something
//! else, an endpoint that is not sent an event, keys of the wrong mode.

use std::collections::BTreeSet;

use billing::BillingState;
use billing::offered_prices::{FoundPrice, PricedOffer};
use billing::plans::OfferedItem;
use billing::webhook::EVENTS;
use domain::time::Timestamp;
use failures::Failure;
use processor_client::objects::{PortalConfiguration, WebhookEndpoint};
use processor_client::{API_VERSION, ListFilter, PortalOffer, ProcessorClient, ProcessorError};
use runtime::metrics;
use secrecy::SecretString;
use settings::Config;

/// The path of the endpoint for events.
pub const WEBHOOK_PATH: &str = "/v1/billing/webhook";
/// What an endpoint calls all types of events.
const ALL_EVENTS: &str = "*";

/// How a part of the set-up is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SetupLevel {
    /// As it should be.
    Good,
    /// It could not be checked, or works only in part.
    Warning,
    /// Payments fail, or are not heard of.
    Problem,
}

/// What was found about one part of the set-up.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SetupFinding {
    /// How it is.
    pub level: SetupLevel,
    /// What it is about: a setting, or something that is sold, such as `pack:pack_10`.
    pub subject: String,
    /// What was found and, unless it is good, what to do.
    pub message: String,
}

/// What making a set-up complete did.
#[derive(Debug, Clone, serde::Serialize)]
pub struct SetupReport {
    /// What was done or, in a dry run, would be.
    pub done: Vec<String>,
    /// The signing secret of a new endpoint, which the processor shows only once.
    #[serde(skip)]
    pub webhook_secret: Option<SecretString>,
    /// The configuration of the portal.
    pub portal_configuration: Option<String>,
}

/// The parts of a set-up check.
#[derive(Clone, Copy)]
pub struct ProcessorSetup<'a> {
    /// What this deployment needs.
    pub config: &'a Config,
    /// The processor.
    pub processor: &'a ProcessorClient,
    /// Where the processor sends events.
    pub webhook_url: &'a str,
}

/// The address for events below the deployment's own address.
pub fn default_webhook_url(config: &Config) -> String {
    format!("{}{WEBHOOK_PATH}", config.http.public_base_url.trim_end_matches('/'))
}

/// Checks the set-up, and writes what is wrong into the log. For the start and once a day, on nodes
/// that compare payments.
pub async fn report(billing: &BillingState) {
    let section = &billing.config.processor;
    let (Ok(processor), true) = (billing.processor(), section.reconcile_every_s > 0) else {
        return;
    };
    let webhook_url = default_webhook_url(&billing.config);
    let setup = ProcessorSetup { config: &billing.config, processor, webhook_url: &webhook_url };
    let findings = setup.check().await;
    for SetupFinding { level, subject, message } in &findings {
        match level {
            SetupLevel::Good => {}
            SetupLevel::Warning => tracing::warn!(subject, message, "payment processor"),
            SetupLevel::Problem => tracing::error!(subject, message, "payment processor"),
        }
    }
    let problems = findings.iter().filter(|found| found.level == SetupLevel::Problem);
    metrics::processor_setup(problems.count());
}

impl ProcessorSetup<'_> {
    /// Checks everything. If the keys do not work, nothing else is asked.
    pub async fn check(&self) -> Vec<SetupFinding> {
        let mut findings = FindingList::default();
        if self.check_keys(&mut findings).await {
            self.check_prices(&mut findings).await;
            self.check_warnings(&mut findings).await;
            self.check_endpoint(&mut findings).await;
            self.check_portal(&mut findings).await;
            self.check_tax(&mut findings).await;
        }
        findings.0
    }

    /// Makes an endpoint for events and a configuration of the portal, or completes them. A dry run
    /// only reads.
    pub async fn complete(&self, now: Timestamp, dry_run: bool) -> Result<SetupReport, Failure> {
        let mut report =
            SetupReport { done: Vec::new(), webhook_secret: None, portal_configuration: None };
        self.complete_endpoint(&mut report, now, dry_run).await?;
        if self.config.processor.portal_configuration.is_empty() {
            self.complete_portal(&mut report, now, dry_run).await?;
        }
        Ok(report)
    }

    async fn check_keys(&self, findings: &mut FindingList) -> bool {
        const SECRET: &str = "processor.secret_key";
        let livemode = self.config.processor.livemode;
        match self.processor.retrieve_balance().await {
            Ok(balance) if balance.livemode == livemode => {
                findings.good(SECRET, format!("works, and is for {}", mode(livemode)));
            }
            Ok(balance) => {
                let (key, here) = (mode(balance.livemode), mode(livemode));
                findings.problem(
                    SECRET,
                    format!("is for {key}, but processor.livemode says {here}: change one of them"),
                );
            }
            Err(error) if is_refused_key(&error) => {
                findings.problem(SECRET, format!("is not accepted by the processor: {error}"));
                return false;
            }
            Err(error) if may_not_read(&error) => {
                findings.warning(SECRET, "works, but may not read the balance, so its mode is unknown: allow reading `Balance`".to_owned());
            }
            Err(error) => {
                findings.problem("processor.base_url", jobs::chain(&error));
                return false;
            }
        }
        true
    }

    /// Compares every price, those that we made too. A retired plan is not sold, so nothing is
    /// compared.
    async fn check_prices(&self, findings: &mut FindingList) {
        for offer in PricedOffer::all(self.config) {
            if offer.price_ref().is_none() {
                continue;
            }
            let subject = self.setting(&offer);
            match offer.find(self.processor).await {
                Ok(FoundPrice::Good(price_id)) => {
                    findings.good(&subject, format!("{price_id} costs what is configured"));
                }
                Ok(FoundPrice::NotMade) => {
                    findings.good(&subject, "its price is made when it is first bought".to_owned());
                }
                Ok(FoundPrice::Wrong { price_id, fault }) => findings.problem(
                    &subject,
                    format!("not for sale: {price_id} {fault}; {}", advice(&offer)),
                ),
                Err(error) => findings.unread(&subject, "Prices", &error),
            }
        }
    }

    /// The setting that names the price of an offer, or what is sold.
    fn setting(&self, offer: &PricedOffer<'_>) -> String {
        let place = match offer {
            _ if !offer.is_configured() => None,
            PricedOffer::Pack(pack) => {
                let place = self.config.packs.iter().position(|other| other.id == pack.id);
                place.map(|place| format!("packs[{place}]"))
            }
            PricedOffer::Item(OfferedItem::Plan(plan)) => {
                let place = self.config.plans.iter().position(|other| other.id == plan.id);
                place.map(|place| format!("plans[{place}]"))
            }
            PricedOffer::Item(OfferedItem::Slot(platform, _)) => {
                Some(format!("slots.prices.{platform}"))
            }
        };
        place.map_or_else(|| offer.subject(), |place| format!("{place}.price_id"))
    }

    /// Warnings of fraud are read again like all that events name.
    async fn check_warnings(&self, findings: &mut FindingList) {
        const SUBJECT: &str = "processor.secret_key";
        let one = ListFilter { limit: Some(1), ..ListFilter::default() };
        match self.processor.list_fraud_warnings(&one).await {
            Ok(_) => findings.good(SUBJECT, "may read warnings of fraud".to_owned()),
            Err(error) => findings.unread(SUBJECT, "Radar: early fraud warnings", &error),
        }
    }

    async fn check_endpoint(&self, findings: &mut FindingList) {
        const SUBJECT: &str = "processor.webhook_secrets";
        let endpoints = match self.processor.list_webhook_endpoints().await {
            Ok(endpoints) => endpoints,
            Err(error) => return findings.unread(SUBJECT, "Webhook Endpoints", &error),
        };
        let url = self.webhook_url;
        let Some(found) = own_endpoint(&endpoints, url) else {
            return findings.problem(
                SUBJECT,
                format!(
                    "no endpoint sends events to {url}, so payments are found only by the comparison every few \
                     minutes: run `creator-gateway processor setup`"
                ),
            );
        };
        let id = &found.id;
        if self.config.processor.webhook_secrets.is_empty() {
            findings.problem(
                SUBJECT,
                format!(
                    "the signing secret of the endpoint {id} is not configured: configure it or, if nobody knows it, \
                     run `creator-gateway processor setup`"
                ),
            );
        }
        let others = endpoints.iter().filter(|endpoint| endpoint.url == url).count();
        if others > 1 {
            findings.warning(
                SUBJECT,
                format!("{others} endpoints send events to {url}: delete all but {id}"),
            );
        }
        if found.status == "disabled" {
            findings.problem(SUBJECT, format!("the endpoint {id} is switched off: switch it on"));
        }
        let missing = missing_events(found);
        if missing.is_empty() {
            findings.good(SUBJECT, format!("the endpoint {id} sends every event that is needed"));
        } else {
            let missing: Vec<&str> = missing.into_iter().collect();
            findings.problem(
                SUBJECT,
                format!(
                    "the endpoint {id} does not send {}: run `creator-gateway processor setup`",
                    missing.join(", ")
                ),
            );
        }
        if let Some(version) = found.api_version.as_deref().filter(|known| *known != API_VERSION) {
            findings.good(
                SUBJECT,
                format!("events have version {version}; objects are read again in {API_VERSION}"),
            );
        }
    }

    async fn check_portal(&self, findings: &mut FindingList) {
        const SUBJECT: &str = "processor.portal_configuration";
        let id = &self.config.processor.portal_configuration;
        if id.is_empty() {
            return;
        }
        match self.processor.retrieve_portal_configuration(id).await {
            Ok(portal) => match portal_problems(&portal) {
                problems if problems.is_empty() => {
                    findings.good(SUBJECT, format!("{id} lets customers do what they may"));
                }
                problems => findings.problem(SUBJECT, format!("{id} {}", problems.join(", and "))),
            },
            Err(ProcessorError::Missing) => {
                findings.problem(
                    SUBJECT,
                    format!("there is no configuration {id}: name another one, or none"),
                );
            }
            Err(error) => findings.unread(SUBJECT, "Customer Portal", &error),
        }
    }

    async fn check_tax(&self, findings: &mut FindingList) {
        const SUBJECT: &str = "billing.tax.automatic";
        if !self.config.billing.tax.automatic {
            return;
        }
        match self.processor.retrieve_tax_settings().await {
            Ok(tax) if tax.status == "active" => {
                findings.good(SUBJECT, "the processor can compute tax".to_owned());
            }
            Ok(tax) => findings.problem(
                SUBJECT,
                format!(
                    "tax is `{}` at the processor, so pages for payments fail: complete its settings of tax, or \
                     switch this off",
                    tax.status
                ),
            ),
            Err(error) => findings.unread(SUBJECT, "Tax", &error),
        }
    }

    async fn complete_endpoint(
        &self,
        report: &mut SetupReport,
        now: Timestamp,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let url = self.webhook_url;
        let endpoints = self.processor.list_webhook_endpoints().await?;
        let key = billing::key("webhook_endpoint", now.unix_micros())?;
        match own_endpoint(&endpoints, url) {
            Some(found) if self.config.processor.webhook_secrets.is_empty() => {
                report.done.push(format!(
                    "an endpoint at {url} instead of {}, whose signing secret is not configured",
                    found.id
                ));
                if !dry_run {
                    let made = self.processor.create_webhook_endpoint(url, &EVENTS, &key).await?;
                    report.webhook_secret = made.secret.map(SecretString::from);
                    self.delete_endpoints(&endpoints).await?;
                }
            }
            None => {
                report.done.push(format!("an endpoint for {} events at {url}", EVENTS.len()));
                if !dry_run {
                    let made = self.processor.create_webhook_endpoint(url, &EVENTS, &key).await?;
                    report.webhook_secret = made.secret.map(SecretString::from);
                }
            }
            Some(found) if found.status == "disabled" || !missing_events(found).is_empty() => {
                report.done.push(format!("the endpoint {} is on and sends every event", found.id));
                if !dry_run {
                    let sent = found.enabled_events.iter().map(String::as_str);
                    let events: BTreeSet<&str> = sent.chain(EVENTS).collect();
                    let events: Vec<&str> = events.into_iter().collect();
                    self.processor.update_webhook_endpoint(&found.id, &events, &key).await?;
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Deletes the endpoints with our address among these.
    async fn delete_endpoints(&self, endpoints: &[WebhookEndpoint]) -> Result<(), Failure> {
        for found in endpoints.iter().filter(|found| found.url == self.webhook_url) {
            match self.processor.delete_webhook_endpoint(&found.id).await {
                Ok(_) | Err(ProcessorError::Missing) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn complete_portal(
        &self,
        report: &mut SetupReport,
        now: Timestamp,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let offer = PortalOffer::of(self.config.billing.tax.asks_companies());
        if let Some(found) = self.processor.find_portal_configuration(offer).await? {
            report.portal_configuration = Some(found.id);
            return Ok(());
        }
        report.done.push("a configuration of the portal".to_owned());
        if !dry_run {
            let key = billing::key("portal_setup", now.unix_micros())?;
            let made = self.processor.create_portal_configuration(offer, &key).await?;
            report.portal_configuration = Some(made.id);
        }
        Ok(())
    }
}

/// What to do about a price that does not match.
fn advice(offer: &PricedOffer<'_>) -> &'static str {
    if offer.is_configured() {
        "name another price in the configuration, or none"
    } else {
        "correct it at the processor, or give its lookup key to a price that matches"
    }
}

/// What was found so far.
#[derive(Default)]
struct FindingList(Vec<SetupFinding>);

impl FindingList {
    fn add(&mut self, level: SetupLevel, subject: &str, message: String) {
        self.0.push(SetupFinding { level, subject: subject.to_owned(), message });
    }

    fn good(&mut self, subject: &str, message: String) {
        self.add(SetupLevel::Good, subject, message);
    }

    fn warning(&mut self, subject: &str, message: String) {
        self.add(SetupLevel::Warning, subject, message);
    }

    fn problem(&mut self, subject: &str, message: String) {
        self.add(SetupLevel::Problem, subject, message);
    }

    /// For something that could not be read. `permission` is the processor's name for it.
    fn unread(&mut self, subject: &str, permission: &str, error: &ProcessorError) {
        let message = if may_not_read(error) {
            format!("could not be checked: allow the secret key to read `{permission}`")
        } else {
            format!("could not be checked: {error}")
        };
        self.warning(subject, message);
    }
}

/// The endpoint with this address; one that is on comes before one that is off.
fn own_endpoint<'a>(endpoints: &'a [WebhookEndpoint], url: &str) -> Option<&'a WebhookEndpoint> {
    let own = endpoints.iter().filter(|endpoint| endpoint.url == url);
    own.min_by_key(|endpoint| endpoint.status == "disabled")
}

fn missing_events(endpoint: &WebhookEndpoint) -> BTreeSet<&'static str> {
    let sends = |event: &str| {
        endpoint.enabled_events.iter().any(|enabled| enabled == ALL_EVENTS || enabled == event)
    };
    EVENTS.into_iter().filter(|event| !sends(event)).collect()
}

fn portal_problems(portal: &PortalConfiguration) -> Vec<&'static str> {
    let features = &portal.features;
    let ends_now = features.subscription_cancel.enabled
        && features.subscription_cancel.mode != "at_period_end";
    let problems = [
        (!portal.active, "is switched off: switch it on"),
        (
            features.subscription_update.enabled,
            "lets customers change plans and quantities, which `/v1/billing` must do: forbid it",
        ),
        (ends_now, "ends subscriptions immediately: let them end with their period"),
    ];
    problems.into_iter().filter(|(is_so, _)| *is_so).map(|(_, problem)| problem).collect()
}

fn is_refused_key(error: &ProcessorError) -> bool {
    matches!(error, ProcessorError::Refused(refusal) if refusal.status.as_u16() == 401)
}

fn may_not_read(error: &ProcessorError) -> bool {
    matches!(error, ProcessorError::Refused(refusal) if refusal.status.as_u16() == 403)
}

const fn mode(livemode: bool) -> &'static str {
    if livemode { "real money (live mode)" } else { "test mode" }
}
