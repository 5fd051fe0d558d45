//! Timelines: the creator's own posts, those of a peer, and the home timeline of all peers followed.

use serde_json::{Value, json};

use super::follows::{self, FOLLOWING};
use super::posts;
use super::shapes::{Who, account_id, body_id, cursor, id, index_of, limit, somebody};
use crate::platform::answer::{Answer, Outcome, Refusal};
use crate::platform::call::Call;
use crate::platform::routes::Routes;
use crate::shelf::Shelf;
use crate::world::ids::Kind;
use crate::world::people::PEERS;
use crate::world::{DAY_MS, MINUTE_MS, signed};

/// Every peer has so many posts.
const PEER_POSTS: u64 = 10;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("timeline", timeline)
        .get("timelinenew", timeline_new)
        .get("timeline/home", home)
        .post("postreply/verify", verify_reply)
}

/// Of the account `accountId`, the own one when absent.
fn timeline(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    match call.query("accountId").map_or(Ok(Who::Creator), |id| somebody(call, id))? {
        Who::Creator => posts::collection(call)
            .list(call, shelf, "posts", |post| posts::shown(call, shelf, post)),
        Who::Peer(peer) => feed(call, &[peer]),
        Who::Fan(_) => feed(call, &[]),
    }
}

/// The same posts with the accounts that wrote them beside.
fn timeline_new(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let mut answer = timeline(call, shelf)?;
    let author = call.query("accountId").map_or(Ok(Who::Creator), |id| somebody(call, id))?;
    if let Some(Value::Object(body)) = &mut answer.body {
        let accounts = json!([super::shapes::account(call, shelf, author)]);
        body.insert("aggregationData".to_owned(), json!({"accounts": accounts}));
    }
    Ok(answer)
}

/// `mode` is `following` (when absent) or `subscriptions`.
fn home(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let followed = follows::following_collection(call).all(shelf);
    let subscribed = |peer: &u64| {
        shelf.holds(super::subscriptions::OWN, super::subscriptions::own_series(call), *peer)
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

/// The posts of these peers, newest first: one of each peer a day.
fn feed(call: &Call<'_>, peers: &[u64]) -> Outcome {
    let mut peers = peers.to_vec();
    peers.sort_unstable();
    let days = 0..PEER_POSTS;
    let all: Vec<(u64, u64)> =
        days.flat_map(|day| peers.iter().map(move |peer| (day, *peer))).collect();
    let place = |name: &str| -> Result<Option<usize>, Refusal> {
        let Some(sent) = cursor(call, name) else {
            return Ok(None);
        };
        let index = index_of(call, Kind::Event, sent);
        let wanted = index.map(|index| (index / PEERS, index % PEERS));
        let place = all.iter().position(|post| Some(*post) == wanted);
        place.map(Some).ok_or_else(|| Refusal::not_found("Post"))
    };
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limit = number(limit(call)?);
    let (start, end) = match (place("before")?, place("after")?) {
        (Some(before), _) => (before + 1, all.len()),
        (None, Some(after)) => (after.saturating_sub(limit), after),
        (None, None) => (number(call.query_number("offset")?.unwrap_or(0)), all.len()),
    };
    let rest = all.get(start.min(end)..end).unwrap_or_default();
    let rows: Vec<Value> =
        rest.iter().take(limit).map(|(day, peer)| peer_post(call, *day, *peer)).collect();
    let newer_wanted = end < all.len();
    let has_more = if newer_wanted { start > 0 } else { rest.len() > limit };
    Ok(Answer::ok(json!({"posts": rows, "total": all.len(), "hasMore": has_more})))
}

fn peer_post(call: &Call<'_>, day: u64, peer: u64) -> Value {
    let index = day * PEERS + peer;
    let generated = call.world.post(index);
    json!({
        "id": id(call, Kind::Event, index),
        "accountId": account_id(call, Who::Peer(peer)),
        "content": generated.text,
        "price": 0,
        "likeCount": generated.likes,
        "replyCount": generated.comments,
        "attachments": [],
        "createdAt": call.world.end_ms - signed(day) * DAY_MS - signed(peer + 1) * 17 * MINUTE_MS,
    })
}

/// `postId` and the `content` of the reply: whether it may be posted.
fn verify_reply(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let post_id = body_id(call, "postId")?;
    let known = posts::collection(call).find(call, shelf, &post_id, "Post").is_ok();
    let of_peer = index_of(call, Kind::Event, &post_id).is_some_and(|index| {
        index < PEER_POSTS * PEERS && shelf.holds(FOLLOWING, call.world.following(), index % PEERS)
    });
    if !known && !of_peer {
        return Err(Refusal::not_found("Post"));
    }
    let content = call.field("content").as_str().unwrap_or_default();
    let allowed = content.chars().count() <= 3000;
    let reason = (!allowed).then_some("content is longer than 3000 characters");
    Ok(Answer::ok(json!({"postId": post_id, "allowed": allowed, "reason": reason})))
}
