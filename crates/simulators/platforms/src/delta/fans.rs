//! Followers, and details about each fan.

use http::Method;
use serde_json::{Value, json};

use super::creators::tracking_link_of;
use super::shapes::{Collection, body_fans, fan_param, id, page_of, user};
use crate::answer::{Answer, Outcome};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::time::rfc3339;

/// The number of newest fans among which the top spenders are searched.
const SPENDERS_SEARCHED_MAX: u64 = 5000;
const TOP_SPENDERS: usize = 100;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:fan"])
        .get("followers", followers)
        .read(Method::POST, "insights/fans/profiles", profiles)
        .scopes(&["read:fan", "read:insights"])
        .get("insights/fans", fans)
        .get("insights/fans/{userUuid}", fan)
        .get("insights/top-spenders", top_spenders)
        .read(Method::POST, "insights/fans/batch", batch)
}

/// The number of fans who had joined before this time.
pub(super) fn joined_before(call: &PlatformCall<'_>, at_ms: i64) -> u64 {
    let (mut low, mut high) = (0, call.world.fans);
    while low < high {
        let middle = low + (high - low) / 2;
        if call.world.fan(middle).subscribed_at_ms < at_ms {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    call.world.fans - low
}

fn followers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let series = call.world.followers();
    let collection = Collection { table: "followers", series, kind: Kind::Fan };
    collection.page(call, overlay, |fan| {
        let mut shown = object(user(call, fan));
        let since = rfc3339(call.world.fan(fan).subscribed_at_ms);
        shown.insert("followedAt".to_owned(), json!(since));
        Value::Object(shown)
    })
}

fn insight(call: &PlatformCall<'_>, fan: u64) -> Value {
    let (person, spent) = (call.world.fan(fan), call.world.spent(fan));
    json!({
        "user": user(call, fan),
        "userUuid": id(call, Kind::Fan, fan),
        "status": if person.active { "subscriber" } else { "expired" },
        "subscribedAt": rfc3339(person.subscribed_at_ms),
        "subscriptionEndsAt": rfc3339(person.expires_at_ms),
        "autoRenewal": person.renews,
        "trackingLinkUuid": tracking_link_of(call, fan),
        "spending": {
            "total": spent.cents(),
            "subscriptions": spent.subscriptions_cents,
            "tips": spent.tips_cents,
            "messages": spent.messages_cents,
            "posts": spent.posts_cents,
            "currency": "USD",
        },
    })
}

fn fans(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let series = call.world.all_fans();
    let collection = Collection { table: "fans", series, kind: Kind::Fan };
    collection.page(call, overlay, |fan| insight(call, fan))
}

fn fan(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    Ok(Answer::ok(insight(call, fan_param(call)?)))
}

fn top_spenders(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let spent = |fan: u64| call.world.spent(fan).cents();
    let searched = 0..call.world.fans.min(SPENDERS_SEARCHED_MAX);
    let mut all: Vec<(i64, u64)> = searched.map(|fan| (-spent(fan), fan)).collect();
    all.sort_unstable();
    all.truncate(TOP_SPENDERS);
    page_of(call, &all.into_iter().map(|(_, fan)| insight(call, fan)).collect::<Vec<_>>())
}

/// Details about each of `userUuids`.
fn batch(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let rows: Vec<Value> = body_fans(call)?.into_iter().map(|fan| insight(call, fan)).collect();
    Ok(Answer::ok(json!({"data": rows})))
}

/// The public profile of each of `userUuids`.
fn profiles(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let row = |fan: u64| {
        let person = call.world.fan(fan);
        let mut shown = object(user(call, fan));
        shown.insert("country".to_owned(), json!(person.country));
        shown.insert("lastSeenAt".to_owned(), json!(rfc3339(person.last_seen_at_ms)));
        Value::Object(shown)
    };
    let rows: Vec<Value> = body_fans(call)?.into_iter().map(row).collect();
    Ok(Answer::ok(json!({"data": rows})))
}
