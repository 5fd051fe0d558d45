//! Earnings and payouts.

use serde_json::{Value, json};

use super::shapes::{CURRENCY, id, own, rows, user_ref, window};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::DAY_MS;
use crate::world::ids::Kind;
use crate::world::time::{day, parse_ms, rfc3339};
use crate::world::trade::{Payment, PaymentKind};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("user/{id}/process/stats", stats)
        .get("user/{id}/payout/available", available)
        .get("user/{id}/payout", history)
}

/// The sums of the window from `init_from` to `init_to` (days, inclusive; by default everything)
/// and its payments, newest first, paged by `limit` and `offset`.
fn stats(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    own(call)?;
    let date = |name: &str| match call.query(name) {
        None => Ok(None),
        Some(text) if text.len() == 10 => {
            let at_ms = parse_ms(text);
            at_ms.map(Some).ok_or_else(|| Refusal::bad_request(format!("{name} is not a date")))
        }
        Some(_) => Err(Refusal::bad_request(format!("{name} is YYYY-MM-DD"))),
    };
    let from_ms = date("init_from")?.unwrap_or(0);
    let to_ms = date("init_to")?.map_or(call.world.now_ms, |start_ms| start_ms + DAY_MS);
    let (limit, offset) = window(call)?;
    let range = call.world.payments_between(from_ms, to_ms);
    let first = range.start.saturating_add(offset).min(range.end);
    let page = first..first.saturating_add(limit).min(range.end);
    let earned = call.world.earnings(from_ms, to_ms);
    let processes: Vec<Value> =
        page.map(|index| process_json(call, &call.world.payment(index))).collect();
    Ok(Answer::ok(json!({
        "init_from": if from_ms == 0 { Value::Null } else { json!(day(from_ms)) },
        "init_to": day(to_ms - 1),
        "total": earned.gross_cents,
        "total_netto": earned.net_cents,
        "total_charged_back": earned.charged_back_cents,
        "currency": CURRENCY,
        "count": earned.payments,
        "processes": processes,
    })))
}

fn process_json(call: &PlatformCall<'_>, payment: &Payment) -> Value {
    let kind = match payment.kind {
        PaymentKind::Subscription => "subscription",
        PaymentKind::Renewal => "subscription_renewal",
        PaymentKind::Tip => "tip",
        PaymentKind::Message => "message",
        PaymentKind::Post => "file_stack",
    };
    json!({
        "_id": id(call, Kind::Payment, payment.index),
        "type": kind,
        "status": if payment.charged_back { "charged_back" } else { "completed" },
        "amount": payment.gross_cents,
        "amount_netto": payment.net_cents,
        "currency": CURRENCY,
        "user": user_ref(call, payment.fan),
        "created_at": rfc3339(payment.paid_at_ms),
    })
}

/// All earnings that were not charged back, less the payouts.
fn available(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    own(call)?;
    let balance = call.world.balance();
    Ok(Answer::ok(json!({
        "available": balance.available_cents,
        "pending": balance.pending_cents,
        "minimum": 5000,
        "currency": CURRENCY,
    })))
}

fn history(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, "payouts", call.world.payouts(), |index| {
        let payout = call.world.payout(index);
        json!({
            "_id": id(call, Kind::Payout, index),
            "amount": payout.cents,
            "currency": CURRENCY,
            "status": "paid",
            "requested_at": rfc3339(payout.requested_at_ms),
            "paid_at": rfc3339(payout.paid_at_ms),
        })
    })
}
