//! The creator's subscribers, and the creator's own subscriptions.

use serde_json::{Value, json};

use super::people::account;
use super::shapes::{AccountRef, Collection, account_id, body_id, id, mills, somebody};
use super::tiers;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::DAY_MS;
use crate::world::ids::Kind;
use crate::world::people::PEERS;
use crate::world::series::Series;

/// The creator's own subscriptions, by peer.
pub(super) const OWN: &str = "own-subscriptions";

/// A fan's subscription has the fan's index; the creator's own ones start here.
const OWN_INDEXES: u64 = 8_000_000_000;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("subscribers", subscribers)
        .get("subscriptions", own_subscriptions)
        .post("subscription", subscribe)
        .post("subscriptions", change)
}

/// The peers that the creator subscribes to: every third one.
pub(super) fn own_series(call: &PlatformCall<'_>) -> Series {
    Series::of(if call.world.is_empty() { 0 } else { PEERS }, 3, &[0])
}

/// `status` is `active`, `expired` or, by default, both. Cursors are account ids.
fn subscribers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let series = match call.query("status") {
        None | Some("" | "all") => call.world.all_fans(),
        Some("active") => call.world.active_fans(),
        Some("expired") => call.world.expired_fans(),
        Some(_) => return Err(Refusal::bad_request("status is not active, expired or all")),
    };
    let collection = Collection { table: "subscribers", series, kind: Kind::Fan };
    collection.list(call, overlay, "subscribers", |fan| subscriber(call, overlay, fan))
}

fn subscriber(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let person = call.world.fan(fan);
    let tier = call.world.tier(person.tier);
    json!({
        "id": id(call, Kind::Fan, fan),
        "subscriptionId": id(call, Kind::Subscription, fan),
        "subscriberId": account_id(call, AccountRef::Fan(fan)),
        "accountId": account_id(call, AccountRef::Creator),
        "subscriptionTierId": id(call, Kind::Tier, tier.index),
        "subscriptionTierName": tiers::name(call, overlay, tier.index),
        "subscriptionTierColor": tier.color,
        "price": mills(person.price_cents),
        "renewPrice": mills(person.price_cents),
        "billingCycle": 30,
        "autoRenew": person.renews,
        "status": if person.active { "active" } else { "expired" },
        "createdAt": person.subscribed_at_ms,
        "endsAt": person.expires_at_ms,
        "account": account(call, overlay, AccountRef::Fan(fan)),
    })
}

fn own_collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: OWN, series: own_series(call), kind: Kind::Peer }
}

fn own_subscriptions(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own_collection(call).list(call, overlay, "subscriptions", |peer| own_json(call, overlay, peer))
}

fn own_json(call: &PlatformCall<'_>, overlay: &Overlay, peer: u64) -> Value {
    let person = call.world.peer(peer);
    let generated = json!({
        "id": account_id(call, AccountRef::Peer(peer)),
        "subscriptionId": id(call, Kind::Subscription, OWN_INDEXES + peer),
        "accountId": account_id(call, AccountRef::Peer(peer)),
        "subscriberId": account_id(call, AccountRef::Creator),
        "price": mills(person.price_cents),
        "renewPrice": mills(person.price_cents),
        "billingCycle": 30,
        "autoRenew": true,
        "status": "active",
        "createdAt": person.followed_at_ms,
        "endsAt": call.world.renewed_ms(call.world.end_ms + 14 * DAY_MS),
    });
    let mut shown = object(overlay.over(OWN, peer, generated));
    shown.insert("account".to_owned(), account(call, overlay, AccountRef::Peer(peer)));
    Value::Object(shown)
}

/// Subscribes to the creator `accountId` for 30 days.
fn subscribe(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let AccountRef::Peer(peer) = somebody(call, &body_id(call, "accountId")?)? else {
        return Err(Refusal::bad_request("accountId is not another creator"));
    };
    if overlay.holds(OWN, own_series(call), peer) {
        return Err(Refusal::conflict("The account is subscribed to already"));
    }
    let fields = json!({
        "autoRenew": true,
        "createdAt": call.now_ms,
        "endsAt": call.now_ms + 30 * DAY_MS,
    });
    overlay.set(OWN, peer, object(fields));
    overlay.put(OWN, peer);
    Ok(Answer::ok(own_json(call, overlay, peer)))
}

/// Sets `autoRenew` of the subscription `subscriptionId`.
fn change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let sent = body_id(call, "subscriptionId")?;
    let peer = super::shapes::index_of(call, Kind::Subscription, &sent)
        .and_then(|index| index.checked_sub(OWN_INDEXES))
        .filter(|peer| overlay.holds(OWN, own_series(call), *peer))
        .ok_or_else(|| Refusal::not_found("Subscription"))?;
    let renew = call.field("autoRenew").as_bool();
    let renew = renew.ok_or_else(|| Refusal::bad_request("autoRenew is not true or false"))?;
    overlay.set(OWN, peer, object(json!({"autoRenew": renew})));
    Ok(Answer::ok(own_json(call, overlay, peer)))
}
