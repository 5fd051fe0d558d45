//! `[processor]`, `[[packs]]`, `[[plans]]` and the prices of slots: what is sold, and through which
//! processor.

use std::path::PathBuf;
use std::time::Duration;

use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use platform_client::SettingsProblem;
use processor_client::webhook::SECRET_BYTES_MIN;
use processor_client::{ProcessorClient, ProcessorSettings};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::encryption::is_plain_to_another_host;
use super::problem::ConfigProblem;
use super::sections::AccountNumbers;

/// The currency of all prices.
pub const CURRENCY: &str = "usd";
/// The billing interval of plans and slots.
pub const INTERVAL: &str = "month";
/// The placeholder that the processor replaces with the checkout session's id.
const SESSION_PLACE: &str = "{CHECKOUT_SESSION_ID}";
/// The smallest amount that the processor charges, in cents.
const PRICE_CENTS_MIN: i64 = 50;
const PRICE_CENTS_MAX: i64 = 99_999_999;
const CREDITS_MAX: i64 = 1_000_000_000;

/// The payment processor.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorSection {
    /// Scheme and host. Empty: nothing is sold.
    pub base_url: String,
    /// The processor's script that the browser pages load.
    pub js_url: String,
    /// The key that authenticates requests.
    #[serde(serialize_with = "super::writing::secret")]
    pub secret_key: SecretString,
    /// The key that browsers get.
    pub publishable_key: String,
    /// The secrets that sign events; several while one is being replaced.
    #[serde(serialize_with = "super::writing::secrets")]
    pub webhook_secrets: Vec<SecretString>,
    /// Whether the keys move real money.
    pub livemode: bool,
    /// Where the customer goes after a checkout. Empty: a page of this service.
    pub success_url: String,
    /// Where the customer goes when leaving a checkout without paying. Empty: a page of this
    /// service.
    pub cancel_url: String,
    /// Where the customer returns to from the portal or the bank. Empty: a page of this service.
    pub return_url: String,
    /// The id of the portal's configuration. Empty: one is created.
    pub portal_configuration: String,
    /// A PEM file with additional certificate authorities. Empty: none.
    pub ca_file: PathBuf,
    /// Milliseconds that one attempt at a request may take.
    pub timeout_ms: u64,
    /// The number of retries.
    pub retries_max: u32,
    /// Milliseconds before the first retry.
    pub retry_pause_ms: u64,
    /// Seconds between two reconciliations with the processor; 0: this node makes none.
    pub reconcile_every_s: u64,
}

/// Credits that are bought once.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pack {
    /// Its id in requests.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The credits that it grants.
    pub credits: i64,
    /// Its price, in cents.
    pub price_cents: i64,
    /// The id of an existing price at the processor. Empty: the price is sent inline.
    #[serde(default)]
    pub price_id: String,
}

/// A subscription: credits and accounts for each month.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its id in requests.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its price per month, in cents.
    pub price_cents: i64,
    /// The credits of each paid month.
    pub monthly_credits: i64,
    /// Accounts on top of those that everybody has.
    pub platforms: AccountNumbers,
    /// A price that exists at the processor; empty: it is written out. Another price, other credits
    /// or other accounts need another one.
    #[serde(default)]
    pub price_id: String,
    /// Whether it is no longer sold. Its subscribers keep it.
    #[serde(default)]
    pub retired: bool,
}

/// What an extra slot costs for a month, on the platforms that sell them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(transparent)]
pub struct SlotPrices(PerPlatform<SlotPrice>);

/// The price of one extra slot.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlotPrice {
    /// Its price per month, in cents; 0: none are sold.
    pub price_cents: i64,
    /// The id of an existing price at the processor. Empty: the price is sent inline.
    pub price_id: String,
}

impl ProcessorSection {
    /// Whether a processor is configured.
    pub const fn is_configured(&self) -> bool {
        !self.base_url.is_empty()
    }

    /// Where the customer goes after a checkout.
    pub fn success_url(&self, public_base_url: &str) -> String {
        own_page(
            &self.success_url,
            public_base_url,
            "/console/billing/return?session_id=",
            SESSION_PLACE,
        )
    }

    /// Where the customer goes when leaving a checkout without paying.
    pub fn cancel_url(&self, public_base_url: &str) -> String {
        own_page(&self.cancel_url, public_base_url, "/console/billing/return?cancelled=true", "")
    }

    /// Where the customer returns to from the portal or the bank.
    pub fn return_url(&self, public_base_url: &str) -> String {
        own_page(&self.return_url, public_base_url, "/console/billing/return", "")
    }

    /// Where a customer manages payments: emails lead there. A person signs in there first.
    pub fn billing_url(&self, public_base_url: &str) -> String {
        own_page(&self.return_url, public_base_url, "/console/billing", "")
    }

    /// The processor if one is configured, or the problems of its section.
    pub fn client(&self) -> Result<Option<ProcessorClient>, Vec<ConfigProblem>> {
        if !self.is_configured() {
            return Ok(None);
        }
        let named = |problem: SettingsProblem| {
            ConfigProblem::new(format!("processor.{}", problem.key), problem.message)
        };
        let client = ProcessorClient::new(&self.settings());
        client.map(Some).map_err(|found| found.into_iter().map(named).collect())
    }

    fn settings(&self) -> ProcessorSettings {
        ProcessorSettings {
            base_url: self.base_url.clone(),
            secret_key: Zeroizing::new(self.secret_key.expose_secret().to_owned()),
            timeout: Duration::from_millis(self.timeout_ms),
            retries_max: self.retries_max,
            retry_pause: Duration::from_millis(self.retry_pause_ms),
            ca_file: (!self.ca_file.as_os_str().is_empty()).then(|| self.ca_file.clone()),
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let mut problem = |key: &str, message: &str| {
            problems.push(ConfigProblem::new(format!("processor.{key}"), message));
        };
        if !(100..=120_000).contains(&self.timeout_ms) {
            problem("timeout_ms", "must be 100 to 120,000");
        }
        if self.retries_max > 5 {
            problem("retries_max", "must be 0 to 5");
        }
        if !(1..=10_000).contains(&self.retry_pause_ms) {
            problem("retry_pause_ms", "must be 1 to 10,000");
        }
        if self.reconcile_every_s != 0 && !(10..=86_400).contains(&self.reconcile_every_s) {
            problem("reconcile_every_s", "must be 0, or 10 to 86,400");
        }
        if ["sk_", "rk_"].iter().any(|prefix| self.publishable_key.starts_with(prefix)) {
            let message = "is a secret key, and would be shown to browsers: use the publishable key (pk_…), and \
                replace this one at the processor if it was ever in use here";
            problem("publishable_key", message);
        }
        let pages = [
            ("js_url", &self.js_url),
            ("success_url", &self.success_url),
            ("cancel_url", &self.cancel_url),
            ("return_url", &self.return_url),
        ];
        for (key, url) in pages.into_iter().filter(|(_, url)| !url.is_empty()) {
            // The placeholder's braces are not allowed in a URL.
            if !is_page(&url.replace(SESSION_PLACE, "id")) {
                problem(key, "must be a URL such as https://example.com/billing");
            }
        }
        if !self.is_configured() {
            return;
        }
        for (key, text) in [("js_url", &self.js_url), ("publishable_key", &self.publishable_key)] {
            if text.is_empty() {
                problem(key, "is required with processor.base_url");
            }
        }
        self.check_secrets(problems);
        if let Err(found) = self.client() {
            problems.extend(found);
        }
    }

    fn check_secrets(&self, problems: &mut Vec<ConfigProblem>) {
        if self.webhook_secrets.is_empty() {
            let message = "needs the signing secret of the webhook endpoint (whsec_…): without it \
                anybody could say that something was paid";
            problems.push(ConfigProblem::new("processor.webhook_secrets", message));
        }
        for (index, secret) in self.webhook_secrets.iter().enumerate() {
            if secret.expose_secret().len() < SECRET_BYTES_MIN {
                let key = format!("processor.webhook_secrets[{index}]");
                problems.push(ConfigProblem::new(key, "must have 24 bytes or more"));
            }
        }
        let secret = self.secret_key.expose_secret();
        let is_live = secret.starts_with("sk_live_") || secret.starts_with("rk_live_");
        let is_test = secret.starts_with("sk_test_") || secret.starts_with("rk_test_");
        if is_live && is_plain_to_another_host(&self.base_url) {
            let message = "must be https: the live secret key would cross the network in the clear";
            problems.push(ConfigProblem::new("processor.base_url", message));
        }
        if is_live && is_plain_to_another_host(&self.js_url) {
            let message = "must be https: whoever changes the script on its way reads cards";
            problems.push(ConfigProblem::new("processor.js_url", message));
        }
        if (is_live && !self.livemode) || (is_test && self.livemode) {
            let message = "must be of the same mode, test or live, as processor.secret_key";
            problems.push(ConfigProblem::new("processor.livemode", message));
        }
    }
}

impl SlotPrices {
    /// What an extra slot costs, where one is sold.
    pub fn of(&self, platform: Platform) -> Option<&SlotPrice> {
        self.0.get(platform).filter(|price| price.price_cents > 0)
    }

    /// The platforms on which extra slots are sold, and what one costs.
    pub fn sold(&self) -> impl Iterator<Item = (Platform, &SlotPrice)> {
        self.0.iter().filter(|(_, price)| price.price_cents > 0)
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        for (platform, price) in self.0.iter() {
            let key = format!("slots.prices.{platform}");
            if price.price_cents != 0 {
                check_price(&key, price.price_cents, problems);
            }
            check_price_id(&key, &price.price_id, problems);
        }
    }
}

/// Checks the packs and the plans.
pub(super) fn check_offers(packs: &[Pack], plans: &[Plan], problems: &mut Vec<ConfigProblem>) {
    for (index, pack) in packs.iter().enumerate() {
        let key = format!("packs[{index}]");
        check_offer(&key, &pack.id, &pack.name, problems);
        check_price(&key, pack.price_cents, problems);
        check_price_id(&key, &pack.price_id, problems);
        if !(1..=CREDITS_MAX).contains(&pack.credits) {
            problems
                .push(ConfigProblem::new(format!("{key}.credits"), "must be 1 to 1,000,000,000"));
        }
        if packs.iter().take(index).any(|earlier| earlier.id == pack.id) {
            problems.push(ConfigProblem::new(format!("{key}.id"), "is the id of an earlier pack"));
        }
    }
    for (index, plan) in plans.iter().enumerate() {
        let key = format!("plans[{index}]");
        check_offer(&key, &plan.id, &plan.name, problems);
        check_price(&key, plan.price_cents, problems);
        check_price_id(&key, &plan.price_id, problems);
        plan.platforms.check(&format!("{key}.platforms"), problems);
        if !(0..=CREDITS_MAX).contains(&plan.monthly_credits) {
            let key = format!("{key}.monthly_credits");
            problems.push(ConfigProblem::new(key, "must be 0 to 1,000,000,000"));
        }
        if plans.iter().take(index).any(|earlier| earlier.id == plan.id) {
            problems.push(ConfigProblem::new(format!("{key}.id"), "is the id of an earlier plan"));
        }
    }
}

fn check_offer(key: &str, id: &str, name: &str, problems: &mut Vec<ConfigProblem>) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !(1..=64).contains(&id.len()) || !id.bytes().all(is_plain) {
        let message = "must be 1 to 64 letters, digits, `_` and `-`";
        problems.push(ConfigProblem::new(format!("{key}.id"), message));
    }
    if name.is_empty() || name.chars().count() > 100 || name.contains(char::is_control) {
        problems.push(ConfigProblem::new(format!("{key}.name"), "must be 1 to 100 characters"));
    }
}

fn check_price(key: &str, price_cents: i64, problems: &mut Vec<ConfigProblem>) {
    if !(PRICE_CENTS_MIN..=PRICE_CENTS_MAX).contains(&price_cents) {
        let message = "must be 50 to 99,999,999: the processor charges no smaller or larger amount";
        problems.push(ConfigProblem::new(format!("{key}.price_cents"), message));
    }
}

fn check_price_id(key: &str, price_id: &str, problems: &mut Vec<ConfigProblem>) {
    if !price_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        let message = "must be empty or the id of a price, such as price_1AbC";
        problems.push(ConfigProblem::new(format!("{key}.price_id"), message));
    }
}

fn is_page(text: &str) -> bool {
    let uri: Option<http::Uri> = text.parse().ok();
    uri.is_some_and(|uri| {
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        matches!(uri.scheme_str(), Some("http" | "https"))
            && !authority.is_empty()
            && !authority.contains('@')
    })
}

fn own_page(configured: &str, public_base_url: &str, path: &str, rest: &str) -> String {
    if configured.is_empty() {
        format!("{public_base_url}{path}{rest}")
    } else {
        configured.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    const GOOD: &str = "base_url = \"https://api.example.com\"\njs_url = \"https://js.example.com/v3/\"\n\
        secret_key = \"sk_test_1\"\npublishable_key = \"pk_test_1\"\n\
        webhook_secrets = [\"whsec_0123456789abcdef0123\"]\n";

    fn problems(toml: &str) -> Vec<String> {
        let config = Config::from_toml(toml).unwrap();
        config.problems().into_iter().map(|problem| problem.key).collect()
    }

    /// The problems of the processor's section with one line replaced.
    fn processor(line: &str) -> Vec<String> {
        let key = line.split('=').next().unwrap();
        let kept = GOOD.lines().filter(|good| !good.starts_with(key));
        let lines: Vec<&str> = ["[processor]"].into_iter().chain(kept).chain([line]).collect();
        problems(&lines.join("\n"))
    }

    #[test]
    fn problems_of_the_processor_section_name_the_field() {
        assert_eq!(problems(&format!("[processor]\n{GOOD}")), [""; 0]);
        for (line, key) in [
            ("webhook_secrets = []", "processor.webhook_secrets"),
            ("webhook_secrets = [\"\"]", "processor.webhook_secrets[0]"),
            ("webhook_secrets = [\"whsec_0123456789abcdef0\"]", "processor.webhook_secrets[0]"),
            ("secret_key = \"\"", "processor.secret_key"),
            ("secret_key = \"sk_live_1\"", "processor.livemode"),
            ("publishable_key = \"\"", "processor.publishable_key"),
            ("publishable_key = \"sk_test_1\"", "processor.publishable_key"),
            ("publishable_key = \"rk_live_1\"", "processor.publishable_key"),
            ("js_url = \"\"", "processor.js_url"),
            ("js_url = \"javascript:alert(1)\"", "processor.js_url"),
            ("success_url = \"//evil.example.com\"", "processor.success_url"),
            ("cancel_url = \"https:evil\"", "processor.cancel_url"),
            ("return_url = \"https://user@example.com/\"", "processor.return_url"),
            ("base_url = \"ftp://api.example.com\"", "processor.base_url"),
            ("base_url = \"https://api.example.com/v1\"", "processor.base_url"),
            ("ca_file = \"no/such/file\"", "processor.ca_file"),
            ("timeout_ms = 0", "processor.timeout_ms"),
            ("retries_max = 6", "processor.retries_max"),
            ("retry_pause_ms = 0", "processor.retry_pause_ms"),
            ("reconcile_every_s = 1", "processor.reconcile_every_s"),
        ] {
            assert_eq!(processor(line), [key], "{line}");
        }
    }

    /// Plain HTTP is allowed only on this machine, where nothing can intercept it.
    #[test]
    fn a_live_secret_key_is_not_sent_unencrypted_over_a_network() {
        let live = |secret: &str, base_url: &str| {
            let kept = GOOD
                .lines()
                .filter(|good| !good.starts_with("secret_key") && !good.starts_with("base_url"));
            let lines: Vec<&str> = kept.collect();
            problems(&format!(
                "[processor]\nlivemode = true\nsecret_key = {secret:?}\nbase_url = {base_url:?}\n{}",
                lines.join("\n")
            ))
        };
        for secret in ["sk_live_1", "rk_live_1"] {
            for base_url in ["https://api.example.com", "http://127.0.0.1:9", "http://localhost:9"]
            {
                assert_eq!(live(secret, base_url), [""; 0], "{secret} {base_url}");
            }
            for base_url in ["http://api.example.com", "http://10.0.0.1:9", "http://localhost.evil"]
            {
                assert_eq!(live(secret, base_url), ["processor.base_url"], "{secret} {base_url}");
            }
        }
        assert_eq!(processor("base_url = \"http://processor.internal\""), [""; 0]);
    }

    #[test]
    fn problems_of_offers_name_the_field() {
        let pack = |change: (&str, &str)| {
            let fields =
                [("id", "\"p\""), ("name", "\"P\""), ("credits", "1"), ("price_cents", "50")];
            let lines = fields.map(|(key, value)| {
                let value = if key == change.0 { change.1 } else { value };
                format!("{key} = {value}\n")
            });
            format!("[[packs]]\n{}", lines.concat())
        };
        assert_eq!(problems(&pack(("", ""))), [""; 0]);
        for (key, value) in [
            ("id", "\"\""),
            ("id", "\"a b\""),
            ("name", "\"\""),
            ("credits", "0"),
            ("price_cents", "49"),
            ("price_cents", "100000000"),
        ] {
            assert_eq!(problems(&pack((key, value))), [format!("packs[0].{key}")], "{key} {value}");
        }
        assert_eq!(problems(&pack(("", "")).repeat(2)), ["packs[1].id"]);
        assert_eq!(
            problems("[slots.prices]\nplatform_alpha = { price_cents = 49, price_id = \"x y\" }"),
            ["slots.prices.platform_alpha.price_cents", "slots.prices.platform_alpha.price_id"]
        );
    }

    #[test]
    fn return_pages_default_to_those_of_the_service() {
        let config = Config::from_toml("[processor]\ncancel_url = \"https://shop.example.com/x\"");
        let section = config.unwrap().processor;

        assert_eq!(
            section.success_url("https://api.example.com"),
            "https://api.example.com/console/billing/return?session_id={CHECKOUT_SESSION_ID}"
        );
        assert_eq!(section.cancel_url("https://api.example.com"), "https://shop.example.com/x");
        assert_eq!(
            section.return_url("https://api.example.com"),
            "https://api.example.com/console/billing/return"
        );
    }
}
