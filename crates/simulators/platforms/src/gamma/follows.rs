//! Followers and followed users.

use http::Method;
use serde_json::{Value, json};

use super::shapes::{fan, fan_of, index_of, own, peer, rows};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::people::PEERS;
use crate::world::time::rfc3339;

/// The fans that follow the creator.
pub(super) const FOLLOWERS: &str = "followers";
/// The users that the creator follows: other creators by index, fans by index after all creators.
pub(super) const FOLLOWING: &str = "following";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("user/{id}/following", following)
        .get("user/{id}/follower", followers)
        .post("user/{fan_id}/follow", follow)
        .write(Method::DELETE, "user/{fan_id}/follow", unfollow)
        .write(Method::DELETE, "user/{fan_id}/un-follow", remove_follower)
}

fn following(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, FOLLOWING, call.world.following(), |followed| {
        let user = followed.checked_sub(PEERS);
        let user = user.map_or_else(|| peer(call, followed), |index| fan(call, index));
        let since = followed.min(PEERS - 1);
        let mut shown = object(user);
        shown.insert(
            "followed_at".to_owned(),
            json!(rfc3339(call.world.peer(since).followed_at_ms)),
        );
        overlay.over(FOLLOWING, followed, Value::Object(shown))
    })
}

fn followers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, FOLLOWERS, call.world.followers(), |follower| fan(call, follower))
}

/// The user of the path, as an index of the following table.
fn followed_param(call: &PlatformCall<'_>) -> Result<u64, Refusal> {
    let wanted = call.param("fan_id");
    let fan = fan_of(call, wanted).map(|fan| PEERS + fan);
    let other = index_of(call, Kind::Peer, wanted).filter(|other| *other < PEERS);
    fan.or(other).ok_or_else(|| Refusal::not_found("User"))
}

fn answer(call: &PlatformCall<'_>, is_following: bool) -> Value {
    json!({"user_id": call.param("fan_id"), "is_following": is_following})
}

fn follow(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let followed = followed_param(call)?;
    if !overlay.holds(FOLLOWING, call.world.following(), followed) {
        overlay.set(FOLLOWING, followed, object(json!({"followed_at": rfc3339(call.now_ms)})));
        overlay.put(FOLLOWING, followed);
    }
    Ok(Answer::ok(answer(call, true)))
}

fn unfollow(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let followed = followed_param(call)?;
    overlay.take(FOLLOWING, followed);
    Ok(Answer::ok(answer(call, false)))
}

/// Removes a fan from the creator's followers; the users that the creator follows are unchanged.
fn remove_follower(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = fan_of(call, call.param("fan_id"))
        .filter(|fan| overlay.holds(FOLLOWERS, call.world.followers(), *fan))
        .ok_or_else(|| Refusal::not_found("Follower"))?;
    overlay.take(FOLLOWERS, fan);
    Ok(Answer::ok(json!({"user_id": call.param("fan_id"), "is_follower": false})))
}
