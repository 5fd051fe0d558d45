//! Apps that users pay for. The sandbox has no directory of apps: every UUID names one.

use serde_json::{Value, json};

use super::shapes::{Collection, id, own_id, page_of};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::time::rfc3339;
use crate::world::{DAY_MS, signed};

/// The price of the app per month, in cents.
const PRICE_CENTS: i64 = 1900;
const OWN_PAYMENTS: u64 = 12;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:self"])
        .get("apps/{appUuid}/payments", payments)
        .get("apps/{appUuid}/payments/me", own_payments)
        .get("apps/{appUuid}/payments/me/{invoiceNumber}", own_payment)
        .get("apps/{appUuid}/payments/{invoiceNumber}", payment)
        .get("apps/{appUuid}/subscription-status", subscription_status)
        .get("apps/{appUuid}/subscription/me", own_subscription)
}

/// The app of the path; 400 if it is not a UUID.
fn app(call: &PlatformCall<'_>) -> Result<String, Refusal> {
    let uuid = call.param("appUuid");
    let fits = uuid.len() == 36
        && uuid.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if fits {
        Ok(uuid.to_ascii_lowercase())
    } else {
        Err(Refusal::bad_request("appUuid is not a UUID"))
    }
}

/// The payment of a fan. Every fan has paid once.
fn payment_json(call: &PlatformCall<'_>, app: &str, fan: u64) -> Value {
    let paid_at_ms = call.world.fan(fan).subscribed_at_ms;
    json!({
        "invoiceNumber": format!("INV-{:08}", fan + 1),
        "appUuid": app,
        "userUuid": id(call, Kind::Fan, fan),
        "amount": PRICE_CENTS,
        "currency": "USD",
        "status": "paid",
        "paidAt": rfc3339(paid_at_ms),
    })
}

fn payments(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let app = app(call)?;
    let all = Collection { table: "app-payments", series: call.world.all_fans(), kind: Kind::Fan };
    all.page(call, overlay, |fan| payment_json(call, &app, fan))
}

/// The number after `prefix`, counted from 1, if it is in our spelling.
fn invoice(call: &PlatformCall<'_>, prefix: &str) -> Option<u64> {
    let digits = call.param("invoiceNumber").strip_prefix(prefix)?;
    let number: u64 = digits.parse().ok()?;
    (format!("{number:08}") == digits).then(|| number.checked_sub(1)).flatten()
}

fn payment(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let app = app(call)?;
    let fan = invoice(call, "INV-").filter(|fan| *fan < call.world.fans);
    let fan = fan.ok_or_else(|| Refusal::not_found("Payment"))?;
    Ok(Answer::ok(payment_json(call, &app, fan)))
}

/// The creator's own payment, one per month.
fn own_payment_json(call: &PlatformCall<'_>, app: &str, month: u64) -> Value {
    json!({
        "invoiceNumber": format!("OWN-{:08}", month + 1),
        "appUuid": app,
        "userUuid": own_id(call),
        "amount": PRICE_CENTS,
        "currency": "USD",
        "status": "paid",
        "paidAt": rfc3339(call.world.end_ms - (signed(month) * 30 + 4) * DAY_MS),
    })
}

fn own_payments(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let app = app(call)?;
    page_of(
        call,
        &(0..OWN_PAYMENTS).map(|month| own_payment_json(call, &app, month)).collect::<Vec<_>>(),
    )
}

fn own_payment(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let app = app(call)?;
    let month = invoice(call, "OWN-").filter(|month| *month < OWN_PAYMENTS);
    let month = month.ok_or_else(|| Refusal::not_found("Payment"))?;
    Ok(Answer::ok(own_payment_json(call, &app, month)))
}

fn subscription_status(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let app = app(call)?;
    Ok(Answer::ok(json!({"appUuid": app, "userUuid": own_id(call), "isActive": true})))
}

fn own_subscription(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    Ok(Answer::ok(json!({
        "appUuid": app(call)?,
        "userUuid": own_id(call),
        "status": "active",
        "price": PRICE_CENTS,
        "currency": "USD",
        "startedAt": rfc3339(call.world.end_ms - (signed(OWN_PAYMENTS) * 30 - 26) * DAY_MS),
        "renewsAt": rfc3339(call.world.renewed_ms(call.world.end_ms + 26 * DAY_MS)),
    })))
}
