//! Earnings. All amounts are mills; net is 80 percent of gross. Every view sums the same payments,
//! so that all views agree.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::people::account;
use super::shapes::{AccountRef, account_id, list_of, mills, net_mills};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::time::{day, parse_ms};
use crate::world::trade::{EarningsOfClass, Payment, PaymentKind};

/// The view by fan reads payments one by one, at most this many of the newest.
const PAYMENTS_MAX: u64 = 20_000;

/// The most months of a view by month.
const MONTHS_MAX: u64 = 36;

/// The codes of the types of earnings.
const TYPES: [u64; 13] =
    [7001, 7101, 15001, 2010, 2110, 2016, 2116, 32001, 32101, 18001, 45001, 45101, 24101];

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("account/wallets/earnings", earnings)
        .get("account/wallets/earnings/accounts", by_account)
        .get("account/wallets/earnings/monthlystats", by_month)
        .get("account/wallets/earnings/monthlystats/accounts", month_by_account)
        .get("account/wallets/earnings/stats", by_type)
}

/// Start, inclusive, and end, exclusive.
type Window = (i64, i64);

#[derive(Clone, Copy, Default)]
struct Sum {
    gross_cents: i64,
    count: u64,
}

impl Sum {
    fn add(&mut self, payment: &Payment) {
        self.gross_cents += payment.gross_cents;
        self.count += 1;
    }
}

/// `startDate` and `endDate` in epoch milliseconds; by default the whole time.
fn window(call: &PlatformCall<'_>) -> Result<Window, Refusal> {
    let bound = |name: &str| -> Result<Option<i64>, Refusal> {
        let sent = call.query_number(name)?;
        Ok(sent.map(|at_ms| i64::try_from(at_ms).unwrap_or(i64::MAX)))
    };
    let from_ms = bound("startDate")?.unwrap_or(0);
    let to_ms = bound("endDate")?.unwrap_or(call.world.now_ms);
    if from_ms > to_ms {
        return Err(Refusal::bad_request("startDate is after endDate"));
    }
    Ok((from_ms, to_ms))
}

fn payments(call: &PlatformCall<'_>, (from_ms, to_ms): Window) -> impl Iterator<Item = Payment> {
    let world = *call.world;
    let range = world.payments_between(from_ms, to_ms);
    let end = range.end.min(range.start.saturating_add(PAYMENTS_MAX));
    (range.start..end).map(move |index| world.payment(index))
}

/// The sum of the window, and what happened to all earnings: the net sums of payouts, of what can
/// be paid out, of what is held for a week, and of chargebacks.
fn earnings(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let world = call.world;
    let (from_ms, to_ms) = window(call)?;
    let total = world.earnings(from_ms, to_ms);
    let balance = world.balance();
    Ok(Answer::ok(json!({
        "accountId": account_id(call, AccountRef::Creator),
        "currency": "USD",
        "startDate": from_ms,
        "endDate": to_ms,
        "totalGross": mills(total.gross_cents),
        "totalNet": net_mills(total.gross_cents),
        "transactions": total.payments,
        "paidOutNet": mills(balance.paid_out_cents),
        "availableNet": mills(balance.available_cents),
        "pendingNet": mills(balance.pending_cents),
        "chargedBackNet": net_mills(world.earnings(i64::MIN, i64::MAX).charged_back_cents),
    })))
}

/// One row for each fan who paid in this window, the highest amount first.
fn accounts(call: &PlatformCall<'_>, overlay: &Overlay, window: Window) -> Outcome {
    let mut fans: BTreeMap<u64, Sum> = BTreeMap::new();
    for payment in payments(call, window) {
        fans.entry(payment.fan).or_default().add(&payment);
    }
    let mut fans: Vec<(u64, Sum)> = fans.into_iter().collect();
    fans.sort_by_key(|(fan, sum)| (Reverse(sum.gross_cents), *fan));
    let row = |(fan, sum): (u64, Sum)| {
        json!({
            "accountId": account_id(call, AccountRef::Fan(fan)),
            "account": account(call, overlay, AccountRef::Fan(fan)),
            "totalGross": mills(sum.gross_cents),
            "totalNet": net_mills(sum.gross_cents),
            "transactions": sum.count,
        })
    };
    list_of(call, "accounts", fans, row)
}

fn by_account(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    accounts(call, overlay, window(call)?)
}

/// The code of what was paid for. The second code of a pair is the same thing bought in a chat,
/// which those with odd numbers are; every third medium was bought in a set.
fn code_of(class: &EarningsOfClass) -> u64 {
    let in_chat = class.rest % 2 == 1;
    let set = class.rest.is_multiple_of(3);
    match (class.kind, in_chat) {
        (PaymentKind::Subscription | PaymentKind::Renewal, _) => 15001,
        (PaymentKind::Tip, false) => 7001,
        (PaymentKind::Tip, true) => 7101,
        (PaymentKind::Message, false) => 32001,
        (PaymentKind::Message, true) => 32101,
        (PaymentKind::Post, false) if set => 2016,
        (PaymentKind::Post, true) if set => 2116,
        (PaymentKind::Post, false) => 2010,
        (PaymentKind::Post, true) => 2110,
    }
}

/// One row for each code, including those without earnings.
fn by_type(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let (from_ms, to_ms) = window(call)?;
    let mut sums: BTreeMap<u64, Sum> = BTreeMap::new();
    for class in call.world.earnings_by_class(from_ms, to_ms) {
        let sum = sums.entry(code_of(&class)).or_default();
        sum.gross_cents += class.gross_cents;
        sum.count += class.payments;
    }
    let row = |code: u64| {
        let sum = sums.get(&code).copied().unwrap_or_default();
        json!({
            "type": code,
            "totalGross": mills(sum.gross_cents),
            "totalNet": net_mills(sum.gross_cents),
            "transactions": sum.count,
        })
    };
    let rows: Vec<Value> = TYPES.into_iter().map(row).collect();
    Ok(Answer::ok(json!({"startDate": from_ms, "endDate": to_ms, "stats": rows})))
}

/// The calendar month that is `back` months before the one of `now_ms`.
fn month(now_ms: i64, back: u64) -> Option<(String, Window)> {
    let newest = day(now_ms);
    let year: i64 = newest.get(..4)?.parse().ok()?;
    let month: i64 = newest.get(5..7)?.parse().ok()?;
    let months = year * 12 + month - 1 - i64::try_from(back).ok()?;
    let start = |count: i64| {
        let name = format!("{:04}-{:02}", count.div_euclid(12), count.rem_euclid(12) + 1);
        let start_ms = parse_ms(&format!("{name}-01"))?;
        Some((name, start_ms))
    };
    let ((name, from_ms), (_, to_ms)) = (start(months)?, start(months + 1)?);
    Some((name, (from_ms, to_ms)))
}

/// The newest `months` (by default 12), newest first.
fn by_month(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let months = call.query_number("months")?.unwrap_or(12).clamp(1, MONTHS_MAX);
    let row = |(name, (from_ms, to_ms)): (String, Window)| {
        let total = call.world.earnings(from_ms, to_ms);
        json!({
            "month": name,
            "startDate": from_ms,
            "endDate": to_ms,
            "totalGross": mills(total.gross_cents),
            "totalNet": net_mills(total.gross_cents),
            "transactions": total.payments,
        })
    };
    let rows: Vec<Value> =
        (0..months).filter_map(|back| month(call.now_ms, back)).map(row).collect();
    Ok(Answer::ok(json!({"monthlyStats": rows})))
}

/// One `month` such as `2025-12`, by default the newest, by fan.
fn month_by_account(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let wanted = call.query("month");
    let mut months = (0..MONTHS_MAX).filter_map(|back| month(call.now_ms, back));
    let found = months.find(|(name, _)| wanted.is_none_or(|wanted| wanted == name));
    let (_, window) = found.ok_or_else(|| Refusal::bad_request("month is not known"))?;
    accounts(call, overlay, window)
}
