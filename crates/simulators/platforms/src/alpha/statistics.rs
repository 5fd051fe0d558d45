//! Statistics: how much was earned, with what, and from whom.

use std::ops::Range;

use serde_json::{Value, json};

use super::shapes::{PAGE, dollars, id, list, user_ref};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::DAY_MS;
use crate::world::ids::Kind;
use crate::world::time::{day, parse_ms, rfc3339_offset};
use crate::world::trade::{Payment, PaymentKind};

/// A chart has at most this many days.
const CHART_DAYS_MAX: i64 = 366;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("users/me/stats/overview", overview)
        .get("users/me/stats/top/message", top_message)
        .get("users/me/profile/stats", profile_stats)
        .get("subscriptions/count/all", subscription_counts)
        .get("earnings/chart", earnings_chart)
        .get("payments/all/has-transactions", has_transactions)
        .get("payments/all/transactions", transactions)
}

fn overview(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let world = call.world;
    let (from_ms, to_ms) = window(call, 30)?;
    let earned = world.earnings(from_ms, to_ms);
    let fans = world.active_fans().count();
    Ok(Answer::ok(json!({
        "startDate": day(from_ms),
        "endDate": day(to_ms),
        "earnings": {
            "total": dollars(earned.net_cents),
            "gross": dollars(earned.gross_cents),
            "currency": "USD",
        },
        "transactions": earned.payments,
        "subscribers": {"active": fans, "all": world.fans},
        "posts": world.posts().count(),
        "massMessages": world.mass_messages().count(),
        "visitors": world.fans * 7,
    })))
}

fn top_message(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let world = call.world;
    let sent = (0..world.mass_messages().count()).map(|index| world.mass_message(index));
    let earned = |message: &crate::world::talk::MassMessage| {
        message.price_cents * crate::world::signed(message.buyers.count())
    };
    let Some(best) = sent.max_by_key(earned) else {
        return Ok(Answer::ok(json!({"message": null})));
    };
    Ok(Answer::ok(json!({"message": {
        "id": id(call, Kind::MassMessage, best.index),
        "text": best.text,
        "date": rfc3339_offset(best.sent_at_ms),
        "price": dollars(best.price_cents),
        "sentCount": best.sent,
        "viewedCount": best.viewed,
        "purchasedCount": best.buyers.count(),
        "earned": dollars(earned(&best)),
    }})))
}

fn profile_stats(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let world = call.world;
    let likes: u64 = (0..world.posts().count()).map(|index| world.post(index).likes).sum();
    Ok(Answer::ok(json!({
        "views": world.fans * 31,
        "guests": world.fans * 24,
        "users": world.fans * 7,
        "favorites": likes,
        "posts": world.posts().count(),
        "medias": world.media().count(),
    })))
}

fn subscription_counts(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let world = call.world;
    Ok(Answer::ok(json!({
        "subscribers": {
            "active": world.active_fans().count(),
            "expired": world.expired_fans().count(),
            "all": world.fans,
            "restricted": overlay.count(super::shapes::RESTRICTED, world.restricted_fans()),
            "blocked": overlay.count(super::shapes::BLOCKED, world.blocked_fans()),
        },
        "subscriptions": {"active": world.following().count(), "expired": 0},
        "bookmarks": 0,
    })))
}

/// One point per day from `startDate` to `endDate`, inclusive.
fn earnings_chart(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let (from_ms, to_ms) = window(call, 30)?;
    let from_ms = from_ms.div_euclid(DAY_MS) * DAY_MS;
    let days = (to_ms - from_ms + DAY_MS - 1).div_euclid(DAY_MS);
    if days > CHART_DAYS_MAX {
        return Err(Refusal::bad_request("The period is too long"));
    }
    let point = |nth: i64| {
        let start_ms = from_ms + nth * DAY_MS;
        let earned = call.world.earnings(start_ms, start_ms + DAY_MS);
        json!({
            "date": day(start_ms),
            "count": earned.payments,
            "gross": dollars(earned.gross_cents),
            "net": dollars(earned.net_cents),
        })
    };
    let points: Vec<Value> = (0..days).map(point).collect();
    let total = call.world.earnings(from_ms, from_ms + days * DAY_MS);
    Ok(Answer::ok(json!({
        "chart": points,
        "total": dollars(total.net_cents),
        "gross": dollars(total.gross_cents),
        "currency": "USD",
    })))
}

fn has_transactions(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    Ok(Answer::ok(json!({"hasTransactions": call.world.payments().count() > 0})))
}

/// All payments, newest first, limited by `startDate` and `endDate`. There is no filter by type:
/// callers filter themselves.
fn transactions(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let all = match (call.query("startDate"), call.query("endDate")) {
        (None, None) => 0..call.world.payments().count(),
        _ => {
            let (from_ms, to_ms) = window(call, 0)?;
            call.world.payments_between(from_ms, to_ms)
        }
    };
    let limit = call.query_number("limit")?.unwrap_or(PAGE.default).clamp(1, PAGE.max);
    let offset = call.query_number("offset")?.unwrap_or(0);
    let page = slice(&all, offset, limit);
    let has_more = page.end < all.end;
    let rows: Vec<Value> =
        page.map(|index| transaction_json(call, &call.world.payment(index))).collect();
    Ok(list(&rows, has_more))
}

fn slice(all: &Range<u64>, offset: u64, limit: u64) -> Range<u64> {
    let start = all.start.saturating_add(offset).min(all.end);
    start..start.saturating_add(limit).min(all.end)
}

fn transaction_json(call: &PlatformCall<'_>, payment: &Payment) -> Value {
    let (kind, description) = match payment.kind {
        PaymentKind::Subscription => ("subscribes", "Subscription"),
        PaymentKind::Renewal => ("recurring_subscribes", "Recurring subscription"),
        PaymentKind::Tip => ("tips", "Tip"),
        PaymentKind::Message => ("chat_messages", "Payment for message"),
        PaymentKind::Post => ("post", "Payment for post"),
    };
    json!({
        "id": id(call, Kind::Payment, payment.index),
        "createdAt": rfc3339_offset(payment.paid_at_ms),
        "type": kind,
        "description": description,
        "amount": dollars(payment.gross_cents),
        "net": dollars(payment.net_cents),
        "fee": dollars(payment.gross_cents - payment.net_cents),
        "vatAmount": 0,
        "currency": "USD",
        "status": if payment.charged_back { "undo" } else { "done" },
        "user": user_ref(call, payment.fan),
    })
}

/// The time from `startDate` to the end of the day `endDate`. Without a start it covers `days`
/// days, or everything if `days` is 0; without an end it ends at the newest moment.
pub(super) fn window(call: &PlatformCall<'_>, days: i64) -> Result<(i64, i64), Refusal> {
    let parse = |name: &str| match call.query(name) {
        None => Ok(None),
        Some(text) => {
            let at_ms = parse_ms(text);
            let whole_day = text.len() == "2026-01-01".len();
            let found = at_ms.map(|at_ms| Some((at_ms, whole_day)));
            found.ok_or_else(|| Refusal::bad_request(format!("{name} is not a date")))
        }
    };
    let to_ms = match parse("endDate")? {
        None => call.world.now_ms,
        Some((at_ms, whole_day)) => at_ms + if whole_day { DAY_MS } else { 0 },
    };
    let all_ms = if days == 0 { 0 } else { to_ms - days * DAY_MS };
    let from_ms = parse("startDate")?.map_or(all_ms, |(at_ms, _)| at_ms);
    if from_ms > to_ms {
        return Err(Refusal::bad_request("startDate is after endDate"));
    }
    Ok((from_ms, to_ms))
}
