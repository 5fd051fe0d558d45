//! Timelines: the creator's own posts, those of a peer, and the home timeline of all followed
//! peers.

use serde_json::{Value, json};

use super::follows::{self, FOLLOWING};
use super::posts;
use super::shapes::{AccountRef, account_id, body_id, id, index_of, list_of, somebody};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::people::PEERS;
use crate::world::{DAY_MS, MINUTE_MS, signed};

/// The number of posts of each peer.
const PEER_POSTS: u64 = 10;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("timeline", timeline)
        .get("timelinenew", timeline_new)
        .get("timeline/home", home)
        .post("postreply/verify", verify_reply)
}

/// The timeline of the account `accountId`, by default the creator's own.
fn timeline(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    match call.query("accountId").map_or(Ok(AccountRef::Creator), |id| somebody(call, id))? {
        AccountRef::Creator => posts::collection(call)
            .list(call, overlay, "posts", |post| posts::shown(call, overlay, post)),
        AccountRef::Peer(peer) => feed(call, &[peer]),
        AccountRef::Fan(_) => feed(call, &[]),
    }
}

/// The same posts, together with the accounts of their authors.
fn timeline_new(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let mut answer = timeline(call, overlay)?;
    let author =
        call.query("accountId").map_or(Ok(AccountRef::Creator), |id| somebody(call, id))?;
    let accounts = json!([super::people::account(call, overlay, author)]);
    answer.add("aggregationData", json!({"accounts": accounts}));
    Ok(answer)
}

/// `mode` is `following` (the default) or `subscriptions`.
fn home(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let followed = follows::following_collection(call).all(overlay);
    let subscribed = |peer: &u64| {
        overlay.holds(super::subscriptions::OWN, super::subscriptions::own_series(call), *peer)
    };
    match call.query("mode") {
        None | Some("" | "0" | "following") => feed(call, &followed),
        Some("1" | "subscriptions") => {
            let peers: Vec<u64> = followed.into_iter().filter(subscribed).collect();
            feed(call, &peers)
        }
        Some(_) => Err(Refusal::bad_request("mode is not following or subscriptions")),
    }
}

/// The posts of these peers, newest first: one per peer and day.
fn feed(call: &PlatformCall<'_>, peers: &[u64]) -> Outcome {
    let mut peers = peers.to_vec();
    peers.sort_unstable();
    let days = 0..PEER_POSTS;
    let all: Vec<(u64, u64)> =
        days.flat_map(|day| peers.iter().map(move |peer| (day, *peer))).collect();
    list_of(call, "posts", all, |(day, peer)| peer_post(call, day, peer))
}

fn peer_post(call: &PlatformCall<'_>, day: u64, peer: u64) -> Value {
    let index = day * PEERS + peer;
    let generated = call.world.post(index);
    json!({
        "id": id(call, Kind::Event, index),
        "accountId": account_id(call, AccountRef::Peer(peer)),
        "content": generated.text,
        "price": 0,
        "likeCount": generated.likes,
        "replyCount": generated.comments,
        "attachments": [],
        "createdAt": call.world.end_ms - signed(day) * DAY_MS - signed(peer + 1) * 17 * MINUTE_MS,
    })
}

/// Whether the reply `content` to `postId` may be posted.
fn verify_reply(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let post_id = body_id(call, "postId")?;
    let known = posts::collection(call).find(call, overlay, &post_id, "Post").is_ok();
    let of_peer = index_of(call, Kind::Event, &post_id).is_some_and(|index| {
        index < PEER_POSTS * PEERS
            && overlay.holds(FOLLOWING, call.world.following(), index % PEERS)
    });
    if !known && !of_peer {
        return Err(Refusal::not_found("Post"));
    }
    let content = call.field("content").as_str().unwrap_or_default();
    let allowed = content.chars().count() <= 3000;
    let reason = (!allowed).then_some("content is longer than 3000 characters");
    Ok(Answer::ok(json!({"postId": post_id, "allowed": allowed, "reason": reason})))
}
