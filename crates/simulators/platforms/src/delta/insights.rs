//! Earnings, their sources, and how fans come and go. Amounts are cents; net is 80 percent.

use serde_json::{Value, json};

use super::agencies::{days, subscriber_day};
use super::shapes::{
    bad_cursor, cursor, cursor_size, id, index_of, page_of, user, window, with_cursor,
};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::time::rfc3339;
use crate::world::trade::{Payment, PaymentKind};

/// Sums by source read at most this many of the newest payments.
const PAYMENTS_MAX: u64 = 20_000;
const SOURCES: [&str; 5] = ["subscription", "renewal", "tip", "message", "post"];

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:insights"])
        .get("insights/earnings", earnings)
        .get("insights/earnings/percentile", percentile)
        .get("insights/earnings/summary", summary)
        .get("insights/fan-retention-summary", retention)
        .get("insights/spending", spending)
        .get("insights/subscribers", subscribers)
        .get("insights/unsubscribe-reasons", unsubscribe_reasons)
}

pub(super) fn source(payment: &Payment) -> &'static str {
    match payment.kind {
        PaymentKind::Subscription => "subscription",
        PaymentKind::Renewal => "renewal",
        PaymentKind::Tip => "tip",
        PaymentKind::Message => "message",
        PaymentKind::Post => "post",
    }
}

/// The payments of the window, newest first, with a cursor; `source` limits them to one kind.
fn earnings(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let (from_ms, to_ms) = window(call, 0)?;
    let wanted = call.query("source").filter(|wanted| !wanted.is_empty());
    if wanted.is_some_and(|wanted| !SOURCES.contains(&wanted)) {
        return Err(Refusal::bad_request("source is not known"));
    }
    let range = call.world.payments_between(from_ms, to_ms);
    let start = match cursor(call) {
        None => range.start,
        Some(cursor) => {
            let index = index_of(call, Kind::Payment, cursor);
            index.filter(|index| range.contains(index)).ok_or_else(bad_cursor)? + 1
        }
    };
    let size = cursor_size(call)?;
    let payments = (start..range.end).map(|index| call.world.payment(index));
    let matching = payments.filter(|payment| wanted.is_none_or(|it| it == source(payment)));
    let mut page: Vec<Payment> = matching.take(size + 1).collect();
    let has_more = page.len() > size;
    page.truncate(size);
    let last = page.last().map(|payment| id(call, Kind::Payment, payment.index));
    let rows: Vec<Value> = page.iter().map(|payment| earning(call, payment)).collect();
    Ok(with_cursor(&rows, last.as_deref().filter(|_| has_more)))
}

fn earning(call: &PlatformCall<'_>, payment: &Payment) -> Value {
    json!({
        "uuid": id(call, Kind::Payment, payment.index),
        "date": rfc3339(payment.paid_at_ms),
        "source": source(payment),
        "gross": payment.gross_cents,
        "net": payment.net_cents,
        "currency": "USD",
        "isReversed": payment.charged_back,
        "user": user(call, payment.fan),
    })
}

/// The higher the earnings, the closer to 100; half of all creators earn less than 100 USD.
fn percentile(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let (from_ms, to_ms) = window(call, 30)?;
    let net_cents = call.world.earnings(from_ms, to_ms).net_cents;
    let percentile = net_cents.saturating_mul(100) / (net_cents + 10_000).max(1);
    Ok(Answer::ok(json!({"percentile": percentile, "net": net_cents, "currency": "USD"})))
}

#[derive(Default)]
struct SourceSum {
    gross_cents: i64,
    net_cents: i64,
    payments: u64,
    fans: std::collections::BTreeSet<u64>,
}

fn by_source(call: &PlatformCall<'_>, from_ms: i64, to_ms: i64) -> Vec<(&'static str, SourceSum)> {
    let mut sums: Vec<(&'static str, SourceSum)> =
        SOURCES.into_iter().map(|source| (source, SourceSum::default())).collect();
    let range = call.world.payments_between(from_ms, to_ms);
    let end = range.end.min(range.start.saturating_add(PAYMENTS_MAX));
    for index in range.start..end {
        let payment = call.world.payment(index);
        if let Some((_, sum)) = sums.iter_mut().find(|(name, _)| *name == source(&payment)) {
            sum.gross_cents += payment.gross_cents;
            sum.net_cents += payment.net_cents;
            sum.payments += 1;
            sum.fans.insert(payment.fan);
        }
    }
    sums
}

fn summary(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let (from_ms, to_ms) = window(call, 30)?;
    let total = call.world.earnings(from_ms, to_ms);
    let before = call.world.earnings(from_ms - (to_ms - from_ms), from_ms);
    let row = |(source, sum): (&'static str, SourceSum)| json!({"source": source, "gross": sum.gross_cents, "net": sum.net_cents});
    let sources: Vec<Value> = by_source(call, from_ms, to_ms).into_iter().map(row).collect();
    Ok(Answer::ok(json!({
        "startDate": rfc3339(from_ms),
        "endDate": rfc3339(to_ms),
        "gross": total.gross_cents,
        "net": total.net_cents,
        "transactions": total.payments,
        "previousNet": before.net_cents,
        "currency": "USD",
        "sources": sources,
    })))
}

fn spending(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let row = |(source, sum): (&'static str, SourceSum)| {
        json!({
            "source": source,
            "gross": sum.gross_cents,
            "transactions": sum.payments,
            "spenders": sum.fans.len(),
            "currency": "USD",
        })
    };
    let (from_ms, to_ms) = window(call, 30)?;
    page_of(call, &by_source(call, from_ms, to_ms).into_iter().map(row).collect::<Vec<_>>())
}

fn retention(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let world = call.world;
    let (all, active) = (world.fans, world.active_fans().count());
    Ok(Answer::ok(json!({
        "subscribersEver": all,
        "activeSubscribers": active,
        "expiredSubscribers": world.expired_fans().count(),
        "retentionPercent": (active * 100).checked_div(all).unwrap_or(0),
        "renewingSubscribers": world.renewing_fans().count(),
        "averageMonths": if all == 0 { 0 } else { 11 },
    })))
}

/// One row per day, newest first.
fn subscribers(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let rows = days(call)?.into_iter().map(|start_ms| subscriber_day(call, start_ms));
    page_of(call, &rows.collect::<Vec<_>>())
}

fn unsubscribe_reasons(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let left = call.world.expired_fans().count();
    let shares = [
        ("too_expensive", 35),
        ("not_enough_content", 25),
        ("no_reply", 15),
        ("only_wanted_a_look", 15),
    ];
    let mut rows: Vec<(&str, u64)> =
        shares.into_iter().map(|(reason, percent)| (reason, left * percent / 100)).collect();
    let named: u64 = rows.iter().map(|(_, count)| count).sum();
    rows.push(("other", left - named));
    let row = |(reason, count): (&str, u64)| json!({"reason": reason, "count": count});
    page_of(call, &rows.into_iter().map(row).collect::<Vec<_>>())
}
