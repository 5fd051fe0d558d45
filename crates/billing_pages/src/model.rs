//! What the pages of billing read from the service: the members that they show, and how.

use std::collections::BTreeMap;

use console_kit::format;

use crate::words;

/// `GET /v1/billing`.
#[derive(serde::Deserialize)]
pub(crate) struct CreditState {
    pub(crate) balance: i64,
    pub(crate) held: i64,
    pub(crate) debt: i64,
    pub(crate) lots: Vec<CreditLot>,
    pub(crate) next_expiring: Option<ExpiringCredits>,
    pub(crate) ledger: Vec<LedgerEntry>,
}

/// Credits that were granted together.
#[derive(serde::Deserialize)]
pub(crate) struct CreditLot {
    source: String,
    granted: i64,
    left: i64,
    expires_at: Option<String>,
}

impl CreditLot {
    pub(crate) fn source(&self) -> &str {
        words::lot_source(&self.source)
    }

    pub(crate) fn left(&self) -> String {
        format::number(self.left)
    }

    pub(crate) fn granted(&self) -> String {
        format::number(self.granted)
    }

    pub(crate) fn expires(&self) -> Option<String> {
        self.expires_at.as_deref().map(format::day)
    }

    pub(crate) const fn is_spent(&self) -> bool {
        self.left == 0
    }
}

/// Credits that expire next.
#[derive(serde::Deserialize)]
pub(crate) struct ExpiringCredits {
    credits: i64,
    expires_at: String,
}

impl ExpiringCredits {
    /// `1,200 credits expire on 22 Dec 2026`.
    pub(crate) fn text(&self) -> String {
        let verb = if self.credits == 1 { "expires" } else { "expire" };
        format!("{} {verb} on {}", format::credits(self.credits), format::day(&self.expires_at))
    }
}

/// A line of the ledger.
#[derive(serde::Deserialize)]
pub(crate) struct LedgerEntry {
    at: String,
    kind: String,
    amount: i64,
    balance_after: Option<i64>,
    debt_after: Option<i64>,
    reference: Option<String>,
}

impl LedgerEntry {
    pub(crate) fn word(&self) -> &str {
        words::ledger_kind(&self.kind)
    }

    pub(crate) fn amount(&self) -> String {
        let sign = if self.amount > 0 { "+" } else { "" };
        format!("{sign}{}", format::number(self.amount))
    }

    pub(crate) fn balance(&self) -> String {
        self.balance_after.map(format::number).unwrap_or_default()
    }

    /// The debt after it, if there is one.
    pub(crate) fn debt(&self) -> Option<String> {
        self.debt_after.filter(|debt| *debt > 0).map(format::number)
    }

    pub(crate) fn at(&self) -> &str {
        &self.at
    }

    /// Sums of a day have no time of their own.
    pub(crate) fn time(&self) -> String {
        if self.is_sum() { format::day(&self.at) } else { format::moment(&self.at) }
    }

    pub(crate) fn reference(&self) -> &str {
        if self.is_sum() { "" } else { self.reference.as_deref().unwrap_or_default() }
    }

    fn is_sum(&self) -> bool {
        matches!(self.kind.as_str(), "usage" | "export")
    }
}

/// `GET /v1/billing/card`.
#[derive(serde::Deserialize)]
pub(crate) struct CardState {
    pub(crate) card: Option<SavedCard>,
    pub(crate) autotopup: AutoTopUp,
    pub(crate) packs: Vec<CreditPack>,
}

/// The saved card.
#[derive(serde::Deserialize)]
pub(crate) struct SavedCard {
    brand: String,
    last4: String,
    exp_month: i64,
    exp_year: i64,
}

impl SavedCard {
    /// `Visa`, `American Express`.
    pub(crate) fn brand(&self) -> String {
        let words = self.brand.split('_').map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_uppercase().to_string());
            format!("{}{}", first.unwrap_or_default(), letters.as_str())
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// `Visa 4242`.
    pub(crate) fn short(&self) -> String {
        format!("{} {}", self.brand(), self.last4)
    }

    pub(crate) fn last4(&self) -> &str {
        &self.last4
    }

    /// `12/2034`.
    pub(crate) fn expires(&self) -> String {
        format!("{:02}/{}", self.exp_month, self.exp_year)
    }
}

/// A credit pack.
#[derive(serde::Deserialize)]
pub(crate) struct CreditPack {
    pub(crate) pack_id: String,
    price_cents: i64,
    credits: i64,
    /// Whether the payment page sells it.
    pub(crate) available: bool,
}

impl CreditPack {
    pub(crate) fn credits(&self) -> String {
        format::number(self.credits)
    }

    pub(crate) fn price(&self) -> String {
        format::dollars(self.price_cents)
    }

    /// `$2.00 per 1,000`, rounded to the cent.
    pub(crate) fn rate(&self) -> String {
        let credits = self.credits.max(1);
        let cents = self.price_cents.saturating_mul(1_000).saturating_add(credits / 2) / credits;
        format!("{} per 1,000", format::dollars(cents))
    }

    /// `5,000 credits for $10.00`.
    pub(crate) fn text(&self) -> String {
        format!("{} for {}", format::credits(self.credits), self.price())
    }
}

/// Automatic top-up.
#[derive(serde::Deserialize)]
pub(crate) struct AutoTopUp {
    pub(crate) enabled: bool,
    pub(crate) threshold_credits: Option<i64>,
    pub(crate) pack_id: Option<String>,
    pub(crate) daily_cap_cents: Option<i64>,
    spent_today_cents: i64,
    stopped_reason: Option<String>,
    waiting_reason: Option<String>,
    waiting_until: Option<String>,
    pub(crate) charge_now: Option<ChargeNow>,
    pub(crate) pending: Option<PendingTopUp>,
}

/// A charge that is made within seconds.
#[derive(serde::Deserialize)]
pub(crate) struct ChargeNow {
    credits: i64,
    amount_cents: i64,
}

impl ChargeNow {
    /// `5,000 credits for $10.00`.
    pub(crate) fn text(&self) -> String {
        let price = format::dollars(self.amount_cents);
        format!("{} for {price}", format::credits(self.credits))
    }
}

/// An open charge of automatic top-up.
#[derive(serde::Deserialize)]
pub(crate) struct PendingTopUp {
    pub(crate) order_id: String,
    pub(crate) requires_action: bool,
    expires_at: Option<String>,
}

impl PendingTopUp {
    pub(crate) fn until(&self) -> String {
        self.expires_at.as_deref().map(format::moment).unwrap_or_default()
    }
}

impl AutoTopUp {
    /// Why the service turned it off, in words; empty if it did not.
    pub(crate) fn stopped(&self) -> &'static str {
        self.stopped_reason.as_deref().map_or("", words::stopped)
    }

    /// Why it buys nothing although the balance is low, and when that ends; empty otherwise.
    pub(crate) fn waits(&self) -> String {
        let Some(reason) = &self.waiting_reason else { return String::new() };
        let why = words::top_up_wait(reason);
        let until = self.waiting_until.as_deref().map(format::minute);
        until.map_or_else(|| why.to_owned(), |until| format!("{why} It goes on after {until} UTC."))
    }

    /// `$0.00 of $75.00 spent today (UTC).`
    pub(crate) fn spent(&self) -> String {
        let spent = format::dollars(self.spent_today_cents);
        match self.daily_cap_cents {
            Some(cap) => format!("{spent} of {} spent today (UTC).", format::dollars(cap)),
            None => format!("{spent} spent today (UTC)."),
        }
    }

    /// `Below 5,000 credits, buy 13,500 credits for $25.00`.
    pub(crate) fn rule(&self, packs: &[CreditPack]) -> String {
        let pack = packs.iter().find(|pack| Some(&pack.pack_id) == self.pack_id.as_ref());
        let below = format::credits(self.threshold_credits.unwrap_or_default());
        pack.map(|pack| format!("Below {below}, buy {}.", pack.text())).unwrap_or_default()
    }
}

/// A page of the processor: its checkout or its portal.
#[derive(serde::Deserialize)]
pub(crate) struct ProcessorPage {
    pub(crate) url: String,
}

/// A plan.
#[derive(serde::Deserialize)]
pub(crate) struct PlanOffer {
    pub(crate) plan_id: String,
    pub(crate) name: String,
    price_cents: i64,
    monthly_credits: i64,
    platforms: BTreeMap<String, i64>,
}

impl PlanOffer {
    pub(crate) fn price(&self) -> String {
        format::dollars(self.price_cents)
    }

    pub(crate) fn credits(&self) -> String {
        format::credits(self.monthly_credits)
    }

    /// The accounts that it adds, on the platforms where it adds some.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (&str, String)> {
        let added = self.platforms.iter().filter(|(_, count)| **count > 0);
        added.map(|(platform, count)| (platform.as_str(), format::counted(*count, "account")))
    }
}

/// `GET /v1/billing/subscription`.
#[derive(serde::Deserialize)]
pub(crate) struct Subscription {
    pub(crate) status: String,
    pub(crate) plan: Option<PlanOffer>,
    pub(crate) next_plan: Option<PlanOffer>,
    current_period_end: Option<String>,
    pub(crate) cancel_at_period_end: bool,
    cancels_at: Option<String>,
    pub(crate) over_limit: Vec<OverLimit>,
}

/// An account for which the next plan has no slot.
#[derive(serde::Deserialize)]
pub(crate) struct OverLimit {
    pub(crate) creator_id: String,
    pub(crate) platform: String,
}

impl Subscription {
    /// Whether there is one that has not ended.
    pub(crate) fn is_live(&self) -> bool {
        !matches!(self.status.as_str(), "none" | "canceled")
    }

    pub(crate) fn state(&self) -> (&'static str, &'static str) {
        words::subscription_status(&self.status)
    }

    /// What is wrong with it, and what to do; empty if nothing is.
    pub(crate) fn trouble(&self) -> &'static str {
        words::subscription_trouble(&self.status)
    }

    /// The plan that is paid for.
    pub(crate) fn name(&self) -> &str {
        self.plan.as_ref().map_or("Subscription", |plan| plan.name.as_str())
    }

    /// The plan that replaces the paid one at the end of the period, if there is one.
    pub(crate) fn pending(&self) -> Option<&PlanOffer> {
        let now = self.plan.as_ref()?;
        self.next_plan.as_ref().filter(|next| next.plan_id != now.plan_id)
    }

    pub(crate) fn period_end(&self) -> String {
        self.current_period_end.as_deref().map(format::day).unwrap_or_default()
    }

    /// When it ends, if it does.
    pub(crate) fn ends(&self) -> Option<String> {
        let ends_at = self
            .cancels_at
            .as_deref()
            .or_else(|| self.current_period_end.as_deref().filter(|_| self.cancel_at_period_end));
        ends_at.filter(|_| self.is_live()).map(format::day)
    }
}

/// `GET /v1/billing/subscriptions/plans`.
#[derive(serde::Deserialize)]
pub(crate) struct PlanList {
    pub(crate) bundles: Vec<SoldPlan>,
}

/// A plan for sale.
#[derive(serde::Deserialize)]
pub(crate) struct SoldPlan {
    #[serde(flatten)]
    pub(crate) plan: PlanOffer,
    /// Whether it can be bought at the moment.
    pub(crate) available: bool,
}

/// `GET /v1/billing/slots`.
#[derive(serde::Deserialize)]
pub(crate) struct SlotList {
    pub(crate) slots: Vec<SlotState>,
    pub(crate) change: Option<SlotChange>,
}

/// A change whose outcome is not known yet.
#[derive(serde::Deserialize)]
pub(crate) struct SlotChange {
    kind: String,
    created_at: String,
}

impl SlotChange {
    pub(crate) fn word(&self) -> &'static str {
        match self.kind.as_str() {
            "plan" => "A change of plan",
            "switch" => "A move of a slot",
            _ => "A change of slots",
        }
    }

    pub(crate) fn since(&self) -> String {
        format::moment(&self.created_at)
    }
}

/// The slots of one platform.
#[derive(serde::Deserialize)]
pub(crate) struct SlotState {
    pub(crate) platform: String,
    price_cents: Option<i64>,
    /// Whether more can be bought at the moment.
    pub(crate) available: bool,
    pub(crate) count: i64,
    pub(crate) included: i64,
    pub(crate) limit: i64,
    pub(crate) active: i64,
    pub(crate) free_allowance: i64,
}

impl SlotState {
    /// The monthly price of one more, if some are sold.
    pub(crate) fn price(&self) -> Option<String> {
        self.price_cents.map(format::dollars)
    }
}

/// An order.
#[derive(serde::Deserialize)]
pub(crate) struct ShownOrder {
    pub(crate) order_id: String,
    pub(crate) pack_id: String,
    credits: i64,
    amount_cents: i64,
    charged_cents: Option<i64>,
    returned_cents: i64,
    tax_cents: Option<i64>,
    pub(crate) status: String,
    channel: String,
    created_at: String,
    failure: Option<String>,
    pub(crate) receipt_url: Option<String>,
    pub(crate) invoice_id: Option<String>,
}

/// `GET /v1/billing/orders`.
#[derive(serde::Deserialize)]
pub(crate) struct OrderList {
    pub(crate) orders: Vec<ShownOrder>,
    pub(crate) next_before: Option<String>,
}

impl ShownOrder {
    pub(crate) fn credits(&self) -> String {
        format::credits(self.credits)
    }

    /// What was charged, else the price.
    pub(crate) fn amount(&self) -> String {
        format::dollars(self.charged_cents.unwrap_or(self.amount_cents))
    }

    /// What has gone back, if something has.
    pub(crate) fn returned(&self) -> Option<String> {
        (self.returned_cents != 0).then(|| format::dollars(self.returned_cents))
    }

    pub(crate) fn tax(&self) -> Option<String> {
        self.tax_cents.filter(|tax| *tax != 0).map(format::dollars)
    }

    pub(crate) fn channel(&self) -> &'static str {
        words::order_channel(&self.channel)
    }

    pub(crate) fn is_top_up(&self) -> bool {
        self.channel == "top_up"
    }

    /// Its state in a word, and the class of its badge.
    pub(crate) fn state(&self) -> (&'static str, &'static str) {
        words::order_status(&self.status)
    }

    /// Why it failed, in words.
    pub(crate) fn failure(&self) -> String {
        self.failure.as_deref().map(words::decline).unwrap_or_default()
    }

    pub(crate) fn at(&self) -> &str {
        &self.created_at
    }

    /// The day and the minute: the exact time is in the tooltip.
    pub(crate) fn time(&self) -> String {
        format::short_minute(&self.created_at)
    }

    /// Whether it may wait for the customer or the bank, without a page of the processor.
    pub(crate) fn may_wait(&self) -> bool {
        self.status == "pending" && self.channel != "checkout"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pack(price_cents: i64, credits: i64) -> CreditPack {
        read(
            json!({"pack_id": "p", "price_cents": price_cents, "credits": credits, "available": true}),
        )
    }

    #[test]
    fn a_rate_is_rounded_to_the_cent() {
        assert_eq!(pack(1_000, 5_000).rate(), "$2.00 per 1,000");
        assert_eq!(pack(10_000, 60_000).rate(), "$1.67 per 1,000");
        assert_eq!(pack(2_500, 13_500).rate(), "$1.85 per 1,000");
        assert_eq!(pack(1, 1_000_000).rate(), "$0.00 per 1,000");
        assert_eq!(pack(i64::MAX, 1).text(), "1 credit for $92,233,720,368,547,758.07");
        assert_eq!(pack(5, 0).rate(), "$50.00 per 1,000", "no pack has none: nothing breaks");
    }

    #[test]
    fn a_card_is_named_as_people_know_it() {
        let card = |brand: &str, month: i64| -> SavedCard {
            read(json!({"brand": brand, "last4": "0005", "exp_month": month, "exp_year": 2034}))
        };

        assert_eq!(card("visa", 1).short(), "Visa 0005");
        assert_eq!(card("american_express", 12).short(), "American Express 0005");
        assert_eq!(card("", 7).brand(), "");
        assert_eq!(
            (card("visa", 1).expires(), card("visa", 12).expires()),
            ("01/2034".to_owned(), "12/2034".to_owned())
        );
    }

    fn entry(kind: &str, amount: i64, debt: Option<i64>) -> LedgerEntry {
        read(json!({
            "at": "2026-11-22T11:27:49Z", "kind": kind, "amount": amount, "balance_after": 1_500,
            "debt_after": debt, "reference": "ord_1",
        }))
    }

    #[test]
    fn a_change_shows_its_sign_its_balance_and_what_is_owed() {
        let bought = entry("pack", 5_000, Some(0));
        let taken = entry("dispute", -2_000, Some(1_200));

        assert_eq!((bought.amount(), bought.balance()), ("+5,000".to_owned(), "1,500".to_owned()));
        assert_eq!((bought.debt(), bought.reference()), (None, "ord_1"));
        assert_eq!((taken.amount(), taken.debt()), ("−2,000".to_owned(), Some("1,200".to_owned())));
        assert_eq!(entry("pack", 0, None).amount(), "0");
    }

    #[test]
    fn the_sum_of_a_day_has_no_time_and_no_reference() {
        for kind in ["usage", "export"] {
            let sum = entry(kind, -3, None);
            assert_eq!((sum.time(), sum.reference()), ("22 Nov 2026".to_owned(), ""), "{kind}");
        }
        assert_eq!(entry("refund", -3, None).time(), "22 Nov 2026, 11:27:49");
    }

    fn top_up(spent: i64, cap: Option<i64>, enabled: bool) -> AutoTopUp {
        read(json!({
            "enabled": enabled, "threshold_credits": 100, "pack_id": "p", "daily_cap_cents": cap,
            "spent_today_cents": spent, "stopped_reason": null, "waiting_reason": null,
            "waiting_until": null, "charge_now": null, "pending": null,
        }))
    }

    #[test]
    fn a_top_up_says_why_it_waits_and_what_it_charges_now() {
        let waits = |reason: &str, until: Value| {
            let mut set = top_up(0, None, true);
            set.waiting_reason = Some(reason.to_owned());
            set.waiting_until = until.as_str().map(str::to_owned);
            set.waits()
        };
        let until = json!("2026-11-29T00:00:00.000000Z");
        assert!(waits("daily_cap", until).ends_with("It goes on after 29 Nov 2026, 00:00 UTC."));
        assert!(waits("pack_not_sold", Value::Null).ends_with("Choose another one."));
        assert_eq!(top_up(0, None, true).waits(), "");
        let charge = ChargeNow { credits: 10_000, amount_cents: 2_000 };
        assert_eq!(charge.text(), "10,000 credits for $20.00");
        assert_eq!(top_up(50, Some(2_500), true).spent(), "$0.50 of $25.00 spent today (UTC).");
        assert_eq!(top_up(50, None, true).spent(), "$0.50 spent today (UTC).");
    }

    #[test]
    fn a_rule_names_its_pack_and_a_pack_that_is_gone_has_none() {
        let set = top_up(0, None, true);

        let rule = set.rule(&[pack(1_000, 5_000)]);

        assert_eq!(rule, "Below 100 credits, buy 5,000 credits for $10.00.");
        assert_eq!(set.rule(&[]), "");
    }

    fn subscription(status: &str, more: &Value) -> Subscription {
        let mut all = json!({
            "status": status, "plan": null, "next_plan": null, "cancel_at_period_end": false,
            "current_period_end": "2026-12-21T12:00:00Z", "cancels_at": null, "over_limit": [],
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(all)
    }

    fn plan(id: &str) -> Value {
        json!({
            "plan_id": id, "name": id, "price_cents": 2_900, "monthly_credits": 1,
            "platforms": {"platform_alpha": 2, "platform_beta": 0, "platform_gamma": 1},
        })
    }

    #[test]
    fn a_subscription_ends_when_it_was_told_to_and_otherwise_not() {
        let ends = |status: &str, more: &Value| subscription(status, more).ends();

        assert_eq!(ends("active", &json!({})), None);
        let at_end = json!({"cancel_at_period_end": true});
        assert_eq!(ends("active", &at_end), Some("21 Dec 2026".to_owned()));
        let earlier = json!({"cancels_at": "2026-12-01T00:00:00Z", "cancel_at_period_end": true});
        assert_eq!(ends("active", &earlier), Some("1 Dec 2026".to_owned()));
        assert_eq!(ends("canceled", &at_end), None, "it has ended");
    }

    #[test]
    fn only_another_plan_is_pending() {
        let same =
            subscription("active", &json!({"plan": plan("small"), "next_plan": plan("small")}));
        let other =
            subscription("active", &json!({"plan": plan("big"), "next_plan": plan("small")}));
        let none = subscription("none", &json!({"next_plan": plan("small")}));

        assert!(same.pending().is_none() && none.pending().is_none());
        assert_eq!(other.pending().map(|next| next.plan_id.as_str()), Some("small"));
        assert_eq!((other.name(), none.name()), ("big", "Subscription"));
        assert!(other.is_live() && !none.is_live());
    }

    #[test]
    fn a_plan_names_the_platforms_on_which_it_adds_accounts() {
        let small: PlanOffer = read(plan("small"));

        let added: Vec<(&str, String)> = small.accounts().collect();

        let expected = [("platform_alpha", "2 accounts"), ("platform_gamma", "1 account")];
        assert_eq!(added, expected.map(|(platform, count)| (platform, count.to_owned())));
        assert_eq!((small.price(), small.credits()), ("$29.00".to_owned(), "1 credit".to_owned()));
    }

    fn order(status: &str, channel: &str, more: &Value) -> ShownOrder {
        let mut all = json!({
            "order_id": "ord_1", "pack_id": "p", "credits": 5_000, "returned_cents": 0, "amount_cents": 1_000,
            "charged_cents": null, "tax_cents": null, "status": status, "channel": channel,
            "created_at": "2026-11-22T11:27:49Z", "failure": null, "receipt_url": null,
            "invoice_id": null,
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(all)
    }

    #[test]
    fn an_order_shows_what_was_charged_and_whether_it_may_still_be_paid_here() {
        let waiting = order("pending", "charge", &json!({}));
        let elsewhere = order("pending", "checkout", &json!({}));
        let taxed = order("paid", "top_up", &json!({"charged_cents": 1_190, "tax_cents": 190}));
        let declined =
            order("failed", "charge", &json!({"failure": "expired_card", "tax_cents": 0}));

        assert!(waiting.may_wait() && !elsewhere.may_wait() && !taxed.may_wait());
        assert_eq!((waiting.amount(), waiting.tax()), ("$10.00".to_owned(), None));
        assert_eq!((taxed.amount(), taxed.tax()), ("$11.90".to_owned(), Some("$1.90".to_owned())));
        let returned = order("paid", "charge", &json!({"returned_cents": 300}));
        assert_eq!((waiting.returned(), returned.returned()), (None, Some("$3.00".to_owned())));
        assert!(taxed.is_top_up() && !waiting.is_top_up());
        assert_eq!((declined.failure(), declined.tax()), ("the card has expired".to_owned(), None));
        assert_eq!(declined.state(), ("Declined", "bad"));
        assert_eq!(waiting.failure(), "");
    }

    #[test]
    fn credits_that_expire_agree_with_their_number() {
        let expiring = |credits: i64| -> ExpiringCredits {
            read(json!({"credits": credits, "expires_at": "2026-12-22T00:00:00Z"}))
        };

        assert_eq!(expiring(1).text(), "1 credit expires on 22 Dec 2026");
        assert_eq!(expiring(1_200).text(), "1,200 credits expire on 22 Dec 2026");
    }
}
