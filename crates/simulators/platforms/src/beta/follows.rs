//! Followers and followed creators.

use serde_json::{Value, json};

use super::people::account;
use super::shapes::{AccountRef, Collection, account_id, body_id, list_of, somebody};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;

/// The fans that follow the creator.
pub(super) const FOLLOWERS: &str = "followers";
/// The peers that the creator follows.
pub(super) const FOLLOWING: &str = "following";

/// The number of newest followers that a search covers.
const SEARCHED_MAX: u64 = 5000;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("account/{accountId}/followers", followers)
        .get("account/{accountId}/following", following)
        .post("account/{accountId}/followers", follow)
        .post("account/{accountId}/followers/remove", unfollow)
}

pub(super) fn following_collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: FOLLOWING, series: call.world.following(), kind: Kind::Peer }
}

fn row(call: &PlatformCall<'_>, overlay: &Overlay, who: AccountRef) -> Value {
    let since = match who {
        AccountRef::Creator => call.world.creator_joined_at_ms(),
        AccountRef::Fan(fan) => call.world.fan(fan).subscribed_at_ms,
        AccountRef::Peer(peer) => call.world.peer(peer).followed_at_ms,
    };
    let own_id = account_id(call, who);
    let shown = match who {
        AccountRef::Creator => json!({"id": own_id, "username": call.world.creator_username()}),
        AccountRef::Fan(_) | AccountRef::Peer(_) => account(call, overlay, who),
    };
    json!({"id": own_id, "accountId": own_id, "createdAt": since, "account": shown})
}

/// All followers of the creator; of a peer only those visible to the creator, which is the creator
/// itself.
fn followers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let world = call.world;
    let collection = Collection { table: FOLLOWERS, series: world.followers(), kind: Kind::Fan };
    let search = call.query("search").unwrap_or_default().to_lowercase();
    match somebody(call, call.param("accountId"))? {
        AccountRef::Creator if search.is_empty() => {
            collection
                .list(call, overlay, "followers", |fan| row(call, overlay, AccountRef::Fan(fan)))
        }
        AccountRef::Creator => {
            let newest = overlay.page(FOLLOWERS, world.followers(), 0, SEARCHED_MAX).indexes;
            let found = newest.into_iter().filter(|fan| {
                let fan = world.fan(*fan);
                fan.username.contains(&search) || fan.name.to_lowercase().contains(&search)
            });
            list_of(call, "followers", found.collect(), |fan| {
                row(call, overlay, AccountRef::Fan(fan))
            })
        }
        AccountRef::Peer(peer) if overlay.holds(FOLLOWING, world.following(), peer) => {
            list_of(call, "followers", vec![AccountRef::Creator], |who| row(call, overlay, who))
        }
        AccountRef::Peer(_) | AccountRef::Fan(_) => {
            list_of(call, "followers", Vec::<Value>::new(), |row| row)
        }
    }
}

/// All that the creator follows; of a fan only those visible to the creator, which is the creator
/// itself.
fn following(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let peer_row = |peer| row(call, overlay, AccountRef::Peer(peer));
    match somebody(call, call.param("accountId"))? {
        AccountRef::Creator => {
            following_collection(call).list(call, overlay, "following", peer_row)
        }
        AccountRef::Fan(fan) if overlay.holds(FOLLOWERS, call.world.followers(), fan) => {
            list_of(call, "following", vec![AccountRef::Creator], |who| row(call, overlay, who))
        }
        AccountRef::Fan(_) | AccountRef::Peer(_) => {
            list_of(call, "following", Vec::<Value>::new(), |row| row)
        }
    }
}

fn follow(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let AccountRef::Peer(peer) = somebody(call, call.param("accountId"))? else {
        return Err(Refusal::bad_request("Only other creators can be followed"));
    };
    overlay.put_new(FOLLOWING, call.world.following(), peer);
    Ok(Answer::ok(json!({"accountId": call.param("accountId"), "following": true})))
}

/// Unfollows another creator; on the creator's own account, removes `followerId` from the
/// followers.
fn unfollow(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    match somebody(call, call.param("accountId"))? {
        AccountRef::Peer(peer) => {
            overlay.take(FOLLOWING, peer);
            Ok(Answer::ok(json!({"accountId": call.param("accountId"), "following": false})))
        }
        AccountRef::Creator => {
            let follower_id = body_id(call, "followerId")?;
            let AccountRef::Fan(fan) = somebody(call, &follower_id)? else {
                return Err(Refusal::bad_request("followerId does not follow you"));
            };
            overlay.take(FOLLOWERS, fan);
            Ok(Answer::ok(json!({"followerId": follower_id, "follows": false})))
        }
        AccountRef::Fan(_) => Err(Refusal::bad_request("Only other creators can be unfollowed")),
    }
}
