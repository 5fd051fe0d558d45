//! Resources of one creator: subscribers, tracking link results, pins and tips of posts.

use http::Method;
use serde_json::{Value, json};
use simulator_kit::seeded_random::mix;

use super::posts;
use super::shapes::{Collection, fan_param, id, index_of, online_fans, own_creator, page_of, user};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339;
use crate::world::{HOUR_MS, signed};

const PINS: &str = "pins";
/// The amount of each tip on a post, in cents.
const TIP_CENTS: i64 = 500;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:creator", "read:fan"])
        .get("creators/{creatorUserUuid}/subscribers", subscribers)
        .get("creators/{creatorUserUuid}/subscribers/online", online_subscribers)
        .scopes(&["read:creator", "read:tracking_links"])
        .get(
            "creators/{creatorUserUuid}/tracking-links/{uuid}/users/{userUuid}/metadata",
            tracking_link_user,
        )
        .scopes(&["read:creator", "read:post"])
        .get("creators/{creatorUserUuid}/posts/{uuid}/tips", tips)
        .scopes(&["write:creator", "write:post"])
        .write(Method::DELETE, "creators/{creatorUserUuid}/posts/{uuid}/pin", unpin)
        .post("creators/{creatorUserUuid}/posts/{uuid}/repost", repost)
}

pub(super) fn subscriber_collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: "subscribers", series: call.world.active_fans(), kind: Kind::Fan }
}

pub(super) fn subscriber(call: &PlatformCall<'_>, fan: u64) -> Value {
    let person = call.world.fan(fan);
    let mut shown = object(user(call, fan));
    let subscription = json!({
        "uuid": id(call, Kind::Subscription, fan),
        "price": person.price_cents,
        "currency": "USD",
        "startedAt": rfc3339(person.subscribed_at_ms),
        "renewsAt": person.renews.then(|| rfc3339(person.expires_at_ms)),
        "endsAt": rfc3339(person.expires_at_ms),
        "autoRenewal": person.renews,
    });
    shown.insert("subscription".to_owned(), subscription);
    Value::Object(shown)
}

fn subscribers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own_creator(call)?;
    subscriber_collection(call).page(call, overlay, |fan| subscriber(call, fan))
}

fn online_subscribers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own_creator(call)?;
    let online = Collection { table: "online", series: online_fans(call), kind: Kind::Fan };
    online.page(call, overlay, |fan| subscriber(call, fan))
}

/// The tracking link that a fan came through; four of ten came without one.
pub(super) fn tracking_link_of(call: &PlatformCall<'_>, fan: u64) -> Option<String> {
    let mut links = 0..call.world.campaigns().count();
    let link = links.find(|link| call.world.campaign(*link).claimers.place_of(fan).is_some());
    link.map(|link| id(call, Kind::Campaign, link))
}

fn tracking_link_user(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    own_creator(call)?;
    let link = index_of(call, Kind::Campaign, call.param("uuid"))
        .filter(|link| call.world.campaigns().place_of(*link).is_some())
        .ok_or_else(|| Refusal::not_found("Tracking link"))?;
    let fan = fan_param(call)?;
    let campaign = call.world.campaign(link);
    if campaign.claimers.place_of(fan).is_none() {
        return Err(Refusal::not_found("User of the tracking link"));
    }
    let person = call.world.fan(fan);
    Ok(Answer::ok(json!({
        "trackingLinkUuid": id(call, Kind::Campaign, link),
        "trackingLinkName": campaign.name,
        "user": user(call, fan),
        "clickedAt": rfc3339(person.subscribed_at_ms - HOUR_MS),
        "country": person.country,
        "metadata": {"utm_source": campaign.name.to_lowercase(), "utm_content": mix(fan) % 100},
    })))
}

fn post_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    own_creator(call)?;
    posts::collection(call).find(call, overlay, call.param("uuid"), "Post")
}

/// The two newest generated posts are pinned.
fn pinned(call: &PlatformCall<'_>) -> Series {
    Series::all(call.world.posts().count().min(2))
}

pub(super) fn is_pinned(call: &PlatformCall<'_>, overlay: &Overlay, post: u64) -> bool {
    overlay.holds(PINS, pinned(call), post)
}

/// Unpins a post; 409 if it is not pinned.
fn unpin(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let post = post_param(call, overlay)?;
    if !is_pinned(call, overlay, post) {
        return Err(Refusal::conflict("The post is not pinned"));
    }
    overlay.take(PINS, post);
    Ok(Answer::empty())
}

/// Posts the same content again, as a new post.
fn repost(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let post = post_param(call, overlay)?;
    let shown = object(posts::shown(call, overlay, post));
    let content = |name: &str| shown.get(name).cloned().unwrap_or_default();
    let fields = json!({
        "text": content("text"),
        "mediaUuids": content("mediaUuids"),
        "price": content("price"),
        "audience": content("audience"),
        "repostOf": content("uuid"),
        "publishedAt": rfc3339(call.now_ms),
    });
    let index = overlay.create(posts::POSTS, object(fields));
    Ok(Answer::created(posts::shown(call, overlay, index)))
}

fn tips(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let post = post_param(call, overlay)?;
    if post > CREATED {
        return page_of(call, &[]);
    }
    let generated = call.world.post(post);
    let count = u64::try_from(generated.tips_cents / TIP_CENTS).unwrap_or(0);
    let tip = |place: u64| {
        let fan = mix(post * 1000 + place).checked_rem(call.world.fans).unwrap_or(0);
        let after_ms = signed(count - place) * HOUR_MS;
        json!({
            "uuid": id(call, Kind::Payment, 8_000_000_000 + post * 1000 + place),
            "user": user(call, fan),
            "amount": TIP_CENTS,
            "currency": "USD",
            "createdAt": rfc3339(generated.posted_at_ms + after_ms),
        })
    };
    page_of(call, &(0..count).map(tip).collect::<Vec<_>>())
}
