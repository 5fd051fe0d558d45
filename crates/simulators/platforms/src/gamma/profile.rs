//! Accounts, and the parts of the creator's own besides fans and money.

use serde_json::{Value, json};

use super::follows::{FOLLOWERS, FOLLOWING};
use super::shapes::{
    CURRENCY, fan, fan_of, id, index_of, medium, own, peer, rows, rows_of, user_ref,
};
use super::uploads::{VAULT, medium_json};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::people::PEERS;
use crate::world::series::Series;
use crate::world::time::rfc3339;
use crate::world::trade::PaymentKind;
use crate::world::{DAY_MS, World, signed};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("user", search)
        .get("user/{id}", user)
        .get("user/{id}/vault", vault)
        .get("user/{id}/voucher", vouchers)
        .get("user/{id}/postback-url", postback_urls)
        .get("user/{id}/interaction", interactions)
        .get("user/{id}/share/configuration", share_configuration)
        .get("user/{id}/blocked", blocked)
        .get("user/{id}/muted", muted)
        .get("user/{id}/restricted", restricted)
}

/// Any account by its id: the caller's own, a fan's, another creator's.
fn user(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let wanted = call.param("id");
    if wanted == id(call, Kind::Creator, 0) {
        return Ok(Answer::ok(me_json(call, overlay)));
    }
    let known = fan_of(call, wanted);
    let other = index_of(call, Kind::Peer, wanted).filter(|other| *other < PEERS);
    let (user, followed) = match (known, other) {
        (Some(found), _) => (fan(call, found), PEERS + found),
        (None, Some(other)) => (peer(call, other), other),
        (None, None) => return Err(Refusal::not_found("User")),
    };
    let world = call.world;
    let follows = known.is_some_and(|fan| overlay.holds(FOLLOWERS, world.followers(), fan));
    let mut answer = Answer::ok(user);
    answer.add("is_follower", json!(follows));
    answer.add("is_following", json!(overlay.holds(FOLLOWING, world.following(), followed)));
    Ok(answer)
}

fn me_json(call: &PlatformCall<'_>, overlay: &Overlay) -> Value {
    let world = call.world;
    let username = world.creator_username();
    json!({
        "_id": id(call, Kind::Creator, 0),
        "username": username,
        "display_name": world.creator_name(),
        "email": format!("{username}@gamma.test"),
        "is_creator": true,
        "is_verified": true,
        "plan": plan(world),
        "follower_count": overlay.count(FOLLOWERS, world.followers()),
        "subscriber_count": world.active_fans().count(),
        "file_stack_count": overlay.count(super::file_stacks::FILE_STACKS, world.posts()),
        "currency": CURRENCY,
        "created_at": rfc3339(world.creator_joined_at_ms()),
    })
}

/// The plan of the account; mass messages need the paid one.
pub(super) fn plan(world: &World) -> &'static str {
    if world.creator == 2 { "free" } else { "pro" }
}

/// The number of newest fans that a search covers, so that a huge account responds quickly.
const SEARCHED_FANS_MAX: u64 = 20_000;

/// Accounts whose name or username contains the text: the caller's own, creators, fans.
fn search(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let wanted = call.query("search").unwrap_or_default().to_lowercase();
    let named = |name: &str, username: &str| {
        name.to_lowercase().contains(&wanted) || username.contains(&wanted)
    };
    let world = call.world;
    let me = named(world.creator_name(), world.creator_username()).then(|| me_json(call, overlay));
    let creators = (0..PEERS).filter(|index| {
        let other = world.peer(*index);
        named(&other.name, &other.username)
    });
    let fans = (0..world.fans.min(SEARCHED_FANS_MAX)).filter(|index| {
        let person = world.fan(*index);
        named(&person.name, &person.username)
    });
    let creators = creators.map(|index| peer(call, index));
    rows_of(call, me.into_iter().chain(creators).chain(fans.map(|index| fan(call, index))))
}

fn vault(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, VAULT, call.world.media(), |index| {
        if index < CREATED { medium(call, index) } else { medium_json(call, overlay, index) }
    })
}

fn vouchers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    let three = Series::all(call.world.tiers().count());
    rows(call, overlay, "vouchers", three, |index| {
        json!({
            "_id": id(call, Kind::Voucher, index),
            "code": format!("WELCOME{}", 10 * (index + 1)),
            "discount": 10 * (index + 1),
            "max_uses": 100,
            "uses": 7 * (index + 1),
            "created_at": rfc3339(call.world.end_ms - signed(index + 1) * 20 * DAY_MS),
            "expires_at": rfc3339(call.world.end_ms + signed(index + 1) * 20 * DAY_MS),
        })
    })
}

fn postback_urls(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    own(call)?;
    if call.world.is_empty() {
        return Ok(Answer::ok(json!([])));
    }
    let url = |event: &str| {
        json!({
            "event": event,
            "url": format!("https://{}.test/postback/{event}", call.world.creator_username()),
            "is_active": true,
        })
    };
    Ok(Answer::ok(["subscription", "payment", "message"].into_iter().map(url).collect()))
}

/// Fans who liked or bought something recently.
fn interactions(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, "interactions", call.world.payments(), |index| {
        let payment = call.world.payment(index);
        let like = payment.kind != PaymentKind::Post;
        json!({
            "_id": id(call, Kind::Event, index),
            "type": if like { "like" } else { "purchase" },
            "user": user_ref(call, payment.fan),
            "file_stack_id": id(call, Kind::Post, call.world.post_before(payment.paid_at_ms, index)),
            "created_at": rfc3339(payment.paid_at_ms),
        })
    })
}

fn share_configuration(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    own(call)?;
    let username = call.world.creator_username();
    Ok(Answer::ok(json!({
        "is_enabled": true,
        "url": format!("https://gamma.test/{username}"),
        "title": call.world.creator_name(),
        "networks": ["mail", "messenger"],
    })))
}

fn blocked(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, "blocked", call.world.blocked_fans(), |index| fan(call, index))
}

fn muted(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, "muted", call.world.muted_fans(), |index| fan(call, index))
}

fn restricted(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, "restricted", call.world.restricted_fans(), |index| fan(call, index))
}
