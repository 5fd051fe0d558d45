//! Payouts, banking, tax forms and chargebacks.

use serde_json::{Value, json};

use super::shapes::{dollars, id, page_of, user_ref};
use super::statistics::window;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::time::{day, rfc3339_offset};
use crate::world::{DAY_MS, signed};

/// The only creator that must report under the directive; the others are refused.
const DAC7_CREATOR: u64 = 1;

const COUNTRIES: [(&str, &str, &str); 6] = [
    ("US", "United States", "USD"),
    ("GB", "United Kingdom", "GBP"),
    ("DE", "Germany", "EUR"),
    ("FR", "France", "EUR"),
    ("PL", "Poland", "PLN"),
    ("BR", "Brazil", "BRL"),
];

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("payouts/account", account)
        .get("payouts/bank", bank)
        .get("payouts/dac7", dac7)
        .get("payouts/legal-info", legal_info)
        .get("payouts/legal-form", legal_form)
        .get("countries/payouts", countries)
        .get("payouts/chargebacks", chargebacks)
        .get("payouts/chargebacks/chart", chargebacks_chart)
        .get("payouts/chargebacks/ratio", chargebacks_ratio)
}

fn account(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let world = call.world;
    let balance = world.balance();
    let payouts = world.payouts();
    let history: Vec<Value> = (0..payouts.count())
        .map(|index| {
            let payout = world.payout(index);
            json!({
                "id": id(call, Kind::Payout, payout.index),
                "amount": dollars(payout.cents),
                "currency": "USD",
                "requestedAt": rfc3339_offset(payout.requested_at_ms),
                "paidAt": rfc3339_offset(payout.paid_at_ms),
                "state": "paid",
            })
        })
        .collect();
    Ok(Answer::ok(json!({
        "payoutAvailable": dollars(balance.available_cents),
        "payoutPending": dollars(balance.pending_cents),
        "minPayoutSumm": 20,
        "currency": "USD",
        "payoutType": "manual",
        "payoutRequests": history,
    })))
}

fn bank(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    Ok(Answer::ok(json!({
        "type": "sepa",
        "country": "DE",
        "currency": "EUR",
        "holder": call.world.creator_name(),
        "iban": format!("DE** **** **** **** **{:02}", 40 + call.world.creator),
        "status": "approved",
    })))
}

fn dac7(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    if call.world.creator != DAC7_CREATOR {
        return Err(Refusal::forbidden("This account is not eligible"));
    }
    Ok(Answer::ok(json!({
        "status": "complete",
        "country": "DE",
        "taxId": "DE*******12",
        "year": 2025,
        "submittedAt": rfc3339_offset(call.world.end_ms - 20 * DAY_MS),
    })))
}

fn legal_info(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    Ok(Answer::ok(json!({
        "type": "individual",
        "name": call.world.creator_name(),
        "country": "DE",
        "city": "Hamburg",
        "address": "1 Harbour Street",
        "postalCode": "20457",
        "birthDate": "1994-05-17",
        "isApproved": true,
    })))
}

fn legal_form(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    Ok(Answer::ok(json!({
        "form": "W-8BEN",
        "status": "signed",
        "signedAt": rfc3339_offset(call.world.end_ms - 300 * DAY_MS),
        "fields": ["name", "country", "address", "birthDate", "signature"],
    })))
}

fn countries(_: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let row = |(code, name, currency): &(&str, &str, &str)| json!({"code": code, "name": name, "currency": currency, "methods": ["bank"]});
    Ok(Answer::ok(COUNTRIES.iter().map(row).collect()))
}

fn chargebacks(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, "chargebacks", call.world.chargebacks(), |index| {
        let payment = call.world.payment(index);
        json!({
            "id": id(call, Kind::Payment, payment.index),
            "amount": dollars(payment.gross_cents),
            "currency": "USD",
            "paymentAt": rfc3339_offset(payment.paid_at_ms),
            "createdAt": rfc3339_offset(payment.paid_at_ms + 9 * DAY_MS),
            "status": "undo",
            "user": user_ref(call, payment.fan),
        })
    })
}

fn chargebacks_chart(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let (from_ms, to_ms) = window(call, 30)?;
    let range = call.world.payments_between(from_ms, to_ms);
    // One payment in 97 is charged back, so this reads only a few.
    let taken = call.world.chargebacks();
    let points: Vec<Value> = (0..taken.count())
        .filter_map(|place| taken.at(place))
        .skip_while(|index| *index < range.start)
        .take_while(|index| *index < range.end)
        .take(1000)
        .map(|index| {
            let payment = call.world.payment(index);
            json!({"date": day(payment.paid_at_ms), "amount": dollars(payment.gross_cents)})
        })
        .collect();
    Ok(Answer::ok(json!({"chart": points, "startDate": day(from_ms), "endDate": day(to_ms)})))
}

fn chargebacks_ratio(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let payments = call.world.payments().count();
    let taken = call.world.chargebacks().count();
    let per_ten_thousand = (taken * 10_000).checked_div(payments).unwrap_or(0);
    Ok(Answer::ok(json!({
        "ratio": dollars(signed(per_ten_thousand)),
        "chargebacks": taken,
        "transactions": payments,
        "isLimited": false,
    })))
}
