//! Content of others and recent events: the feed, reels, activity, partnerships.

use serde_json::json;

use super::file_stacks::{FILE_STACKS, file_stack_json};
use super::follows::FOLLOWING;
use super::shapes::{CURRENCY, id, peer, rows, rows_of, user_ref};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::people::PEERS;
use crate::world::series::Series;
use crate::world::time::rfc3339;
use crate::world::trade::PaymentKind;
use crate::world::{DAY_MS, HOUR_MS, signed};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("base", feed)
        .get("reels", reels)
        .get("activity", activity)
        .get("partnerships", partnerships)
}

/// Posts of followed creators, one of each, newest first.
fn feed(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let mut followed = overlay.page(FOLLOWING, call.world.following(), 0, u64::MAX).indexes;
    followed.retain(|index| *index < PEERS);
    followed.sort_unstable();
    let posts = followed.into_iter().map(|index| {
        json!({
            "_id": id(call, Kind::Other, index),
            "user": peer(call, index),
            "description": call.world.post(index).text,
            "like_count": call.world.post(index).likes,
            "price": 0,
            "currency": CURRENCY,
            "created_at": rfc3339(call.world.end_ms - signed(index + 1) * 5 * HOUR_MS),
        })
    });
    rows_of(call, posts)
}

/// Short videos of the user `user_id`: the file stacks that are videos.
fn reels(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let user_id =
        call.query("user_id").ok_or_else(|| Refusal::bad_request("user_id is required"))?;
    if user_id != id(call, Kind::Creator, 0) {
        return Ok(Answer::ok(json!([])));
    }
    let all = overlay.page(FILE_STACKS, call.world.posts(), 0, u64::MAX).indexes.into_iter();
    let reels = all.map(|index| file_stack_json(call, overlay, index)).filter(|stack| {
        stack["categories"].as_array().is_some_and(|it| it.contains(&json!("video")))
    });
    rows_of(call, reels)
}

/// The actions of fans, newest first.
fn activity(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    rows(call, overlay, "activity", call.world.payments(), |index| {
        let payment = call.world.payment(index);
        let kind = match payment.kind {
            PaymentKind::Subscription => "subscribed",
            PaymentKind::Renewal => "renewed",
            PaymentKind::Tip => "tipped",
            PaymentKind::Message => "bought_message",
            PaymentKind::Post => "bought_post",
        };
        json!({
            "_id": id(call, Kind::Event, CREATED / 2 + index),
            "type": kind,
            "user": user_ref(call, payment.fan),
            "amount": payment.gross_cents,
            "currency": CURRENCY,
            "created_at": rfc3339(payment.paid_at_ms),
        })
    })
}

/// Creators with whom the creator shares earnings.
fn partnerships(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let partners = Series::of(call.world.following().count().min(PEERS), 13, &[2]);
    rows(call, overlay, "partnerships", partners, |index| {
        json!({
            "_id": id(call, Kind::Campaign, index),
            "partner": peer(call, index),
            "share_percent": 10 + index % 3 * 5,
            "status": "active",
            "created_at": rfc3339(call.world.end_ms - signed(index + 1) * 30 * DAY_MS),
        })
    })
}
