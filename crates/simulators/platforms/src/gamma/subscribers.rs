//! Subscribers and their number.

use serde_json::{Value, json};

use super::shapes::{CURRENCY, id, own, rows_with_limit, user_ref, without_empty_list};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::time::rfc3339;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("user/{id}/subscription", subscriptions).get("user/{id}/subscription-count", counts)
}

/// All subscriptions, including ended ones, newest first; `status` filters them.
fn subscriptions(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    let world = call.world;
    let fans = match call.query("status") {
        None | Some("") => world.all_fans(),
        Some("active") => world.renewing_fans(),
        Some("pending-cancelled") => world.ending_fans(),
        Some("cancelled") => world.expired_fans(),
        Some(_) => return Err(Refusal::bad_request("status is not known")),
    };
    rows_with_limit(call, overlay, "subscriptions", fans, |fan| subscription_json(call, fan))
        .map(without_empty_list)
}

fn subscription_json(call: &PlatformCall<'_>, fan: u64) -> Value {
    let person = call.world.fan(fan);
    let status = match (person.active, person.renews) {
        (true, true) => "active",
        (true, false) => "pending-cancelled",
        (false, _) => "cancelled",
    };
    json!({
        "_id": id(call, Kind::Subscription, fan),
        "user": user_ref(call, fan),
        "status": status,
        "subscription_configuration_id": id(call, Kind::Tier, person.tier),
        "price": person.price_cents,
        "total_spent": call.world.spent(fan).cents(),
        "currency": CURRENCY,
        "created_at": rfc3339(person.subscribed_at_ms),
        "expires_at": rfc3339(person.expires_at_ms),
    })
}

fn counts(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    own(call)?;
    Ok(Answer::ok(json!({
        "active": call.world.renewing_fans().count(),
        "cancelled": call.world.expired_fans().count(),
        "pending_cancelled": call.world.ending_fans().count(),
    })))
}
