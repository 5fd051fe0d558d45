//! Gift codes for subscriptions.

use serde_json::{Value, json};
use simulator_kit::seeded_random::mix;

use super::shapes::{Collection, NOTHING, body_id, id, query_id};
use super::tiers;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::DAY_MS;
use crate::world::ids::Kind;

const CODES: Collection<'static> =
    Collection { table: "gift-codes", series: NOTHING, kind: Kind::Voucher };

/// The most codes that one request creates.
const COUNT_MAX: u64 = 100;
const VALID_MS: i64 = 90 * DAY_MS;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("subscriptions/giftcode", code)
        .get("subscriptions/giftcodes", codes)
        .post("subscriptions/giftcodes", create)
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let generated = json!({
        "id": id(call, CODES.kind, index),
        "code": format!("GIFT-{:08X}", mix(index) >> 32),
        "usedAt": null,
        "usedBy": null,
    });
    overlay.over(CODES.table, index, generated)
}

fn codes(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    CODES.list(call, overlay, "giftCodes", |index| shown(call, overlay, index))
}

/// A code by its `id` or by the `code` itself.
fn code(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let index = match call.query("code") {
        None => CODES.find(call, overlay, query_id(call, "id")?, "Gift code")?,
        Some(text) => {
            let mut all = CODES.all(overlay).into_iter();
            let is_it = |index: &u64| {
                shown(call, overlay, *index).get("code").and_then(Value::as_str) == Some(text)
            };
            all.find(is_it).ok_or_else(|| Refusal::not_found("Gift code"))?
        }
    };
    Ok(Answer::ok(shown(call, overlay, index)))
}

/// Creates `count` codes (by default 1) for `duration` days (by default 30) of
/// `subscriptionTierId`.
fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let tier_id = body_id(call, "subscriptionTierId")?;
    tiers::collection(call).find(call, overlay, &tier_id, "Subscription tier")?;
    let number = |name: &str, default: u64, max: u64| match call.field(name) {
        Value::Null => Ok(default),
        sent => sent
            .as_u64()
            .filter(|number| (1..=max).contains(number))
            .ok_or_else(|| Refusal::bad_request(format!("{name} is not from 1 to {max}"))),
    };
    let (count, days) = (number("count", 1, COUNT_MAX)?, number("duration", 30, 365)?);
    let fields = json!({
        "subscriptionTierId": tier_id,
        "duration": days,
        "createdAt": call.now_ms,
        "expiresAt": call.now_ms + VALID_MS,
    });
    let create_one = |_| overlay.create(CODES.table, object(fields.clone()));
    let indexes: Vec<u64> = (0..count).map(create_one).collect();
    let rows: Vec<Value> = indexes.into_iter().map(|index| shown(call, overlay, index)).collect();
    Ok(Answer::ok(json!({"giftCodes": rows})))
}
