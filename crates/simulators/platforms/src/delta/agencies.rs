//! An agency's view of its creators. The sandbox's agency has one: the calling creator.

use serde_json::{Value, json};

use super::shapes::{own_id, page_of, window};
use super::{chats, creators, fans, posts};
use crate::answer::{Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::series::Series;
use crate::world::time::day;
use crate::world::{DAY_MS, signed};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:agency", "read:chat"])
        .get("agencies/chats", agency_chats)
        .scopes(&["read:agency", "read:creator"])
        .get("agencies/earnings", earnings)
        .get("agencies/followers-history", followers_history)
        .get("agencies/subscribers", subscribers)
        .get("agencies/subscribers-history", subscribers_history)
        .scopes(&["write:creator", "write:post"])
        .post("agencies/posts", create_post)
}

fn with_creator(call: &PlatformCall<'_>, row: Value) -> Value {
    let mut row = object(row);
    row.insert("creatorUuid".to_owned(), json!(own_id(call)));
    Value::Object(row)
}

fn agency_chats(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    chats::collection(call)
        .page(call, overlay, |fan| with_creator(call, chats::shown(call, overlay, fan)))
}

fn subscribers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    creators::subscriber_collection(call)
        .page(call, overlay, |fan| with_creator(call, creators::subscriber(call, fan)))
}

/// The start of each day of the window, newest first.
pub(super) fn days(call: &PlatformCall<'_>) -> Result<Vec<i64>, Refusal> {
    let (from_ms, to_ms) = window(call, 30)?;
    let first = from_ms.div_euclid(DAY_MS);
    let end = (to_ms + DAY_MS - 1).div_euclid(DAY_MS);
    if end - first > 366 {
        return Err(Refusal::bad_request("The period is longer than a year"));
    }
    Ok((first..end).rev().map(|day| day * DAY_MS).collect())
}

fn earnings(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let row = |start_ms: i64| {
        let earned = call.world.earnings(start_ms, start_ms + DAY_MS);
        json!({
            "date": day(start_ms),
            "creatorUuid": own_id(call),
            "gross": earned.gross_cents,
            "net": earned.net_cents,
            "transactions": earned.payments,
            "currency": "USD",
        })
    };
    page_of(call, &days(call)?.into_iter().map(row).collect::<Vec<_>>())
}

/// The number of fans in `series` who had subscribed by then.
fn came_before(call: &PlatformCall<'_>, series: Series, at_ms: i64) -> u64 {
    let later = call.world.fans - fans::joined_before(call, at_ms);
    series.count() - series.count_below(later)
}

fn followers_history(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let row = |start_ms: i64| {
        let total = came_before(call, call.world.followers(), start_ms + DAY_MS);
        let before = came_before(call, call.world.followers(), start_ms);
        json!({
            "date": day(start_ms),
            "creatorUuid": own_id(call),
            "total": total,
            "newFollowers": total - before,
        })
    };
    page_of(call, &days(call)?.into_iter().map(row).collect::<Vec<_>>())
}

/// The subscribers of one day: the total, the new ones, and those who left.
pub(super) fn subscriber_day(call: &PlatformCall<'_>, start_ms: i64) -> Value {
    let before = fans::joined_before(call, start_ms + DAY_MS);
    let new = before - fans::joined_before(call, start_ms);
    let expired = call.world.expired_fans();
    let ended = |at_ms: i64| {
        let all = at_ms >= call.world.end_ms;
        if all { expired.count() } else { came_before(call, expired, at_ms - 30 * DAY_MS) }
    };
    let left = ended(start_ms + DAY_MS) - ended(start_ms);
    json!({
        "date": day(start_ms),
        "total": signed(before) - signed(ended(start_ms + DAY_MS)),
        "newSubscribers": new,
        "cancelledSubscribers": left,
    })
}

fn subscribers_history(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let row = |start_ms: i64| with_creator(call, subscriber_day(call, start_ms));
    page_of(call, &days(call)?.into_iter().map(row).collect::<Vec<_>>())
}

/// Like `posts`, with the `creatorUuid` to post for.
fn create_post(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    if call.text("creatorUuid")? != own_id(call) {
        return Err(Refusal::not_found("Creator"));
    }
    posts::create(call, overlay)
}
