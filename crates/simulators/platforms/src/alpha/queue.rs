//! Mass messages: sent and scheduled ones.

use serde_json::{Value, json};

use super::shapes::{dollars, id, index, page_of, user_ref};
use super::statistics::window;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::signed;
use crate::world::time::{day, parse_ms, rfc3339_offset};

const QUEUE: &str = "queue";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("messages/queue", queue)
        .post("messages/queue", enqueue)
        .get("messages/queue/chart", chart)
        .get("messages/queue/{queue_id}/buyers", buyers)
}

fn queue(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, QUEUE, call.world.mass_messages(), |index| {
        queued_json(call, overlay, index)
    })
}

fn queued_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    if index < CREATED {
        let message = call.world.mass_message(index);
        return json!({
            "id": id(call, Kind::MassMessage, index),
            "text": message.text,
            "price": dollars(message.price_cents),
            "date": rfc3339_offset(message.sent_at_ms),
            "isDone": true,
            "isCanceled": false,
            "sentCount": message.sent,
            "viewedCount": message.viewed,
            "purchasedCount": message.buyers.count(),
            "mediaCount": usize::from(message.price_cents > 0),
        });
    }
    // A message is scheduled until its time, and sent from then on.
    let due_ms = overlay.field(QUEUE, index, "dueMs").and_then(Value::as_i64).unwrap_or(0);
    let done = due_ms <= call.now_ms;
    let mut shown = object(overlay.over(QUEUE, index, json!({})));
    shown.remove("dueMs");
    shown.insert("id".to_owned(), json!(id(call, Kind::MassMessage, index)));
    shown.insert("isDone".to_owned(), json!(done));
    shown.insert(
        "sentCount".to_owned(),
        json!(if done { call.world.active_fans().count() } else { 0 }),
    );
    Value::Object(shown)
}

/// `text`, `price` in dollars, `mediaFiles`, `userLists`; `scheduledDate` sends it later.
fn enqueue(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let text = call.text("text")?.to_owned();
    let due_ms = match call.field("scheduledDate") {
        Value::Null => call.now_ms,
        Value::String(date) => {
            parse_ms(date).ok_or_else(|| Refusal::bad_request("scheduledDate is not a date"))?
        }
        _ => return Err(Refusal::bad_request("scheduledDate is not a date")),
    };
    if due_ms < call.now_ms {
        return Err(Refusal::bad_request("scheduledDate is in the past"));
    }
    let media = call.field("mediaFiles").as_array().map_or(0, Vec::len);
    let fields = json!({
        "text": text,
        "price": call.field("price").as_f64().unwrap_or(0.0),
        "date": rfc3339_offset(due_ms),
        "dueMs": due_ms,
        "isCanceled": false,
        "viewedCount": 0,
        "purchasedCount": 0,
        "mediaCount": media,
        "userLists": call.field("userLists"),
    });
    let index = overlay.create(QUEUE, object(fields));
    Ok(Answer::created(queued_json(call, overlay, index)))
}

fn chart(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let world = call.world;
    let (from_ms, to_ms) = window(call, 30)?;
    let sent = (0..world.mass_messages().count()).map(|index| world.mass_message(index));
    let within = sent.filter(|message| (from_ms..to_ms).contains(&message.sent_at_ms));
    let points: Vec<Value> = within
        .map(|message| {
            let bought = message.buyers.count();
            json!({
                "date": day(message.sent_at_ms),
                "sent": message.sent,
                "viewed": message.viewed,
                "purchased": bought,
                "earned": dollars(message.price_cents * signed(bought) * 4 / 5),
            })
        })
        .collect();
    Ok(Answer::ok(json!({"chart": points, "startDate": day(from_ms), "endDate": day(to_ms)})))
}

fn buyers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let message = index(call, Kind::MassMessage, "queue_id", "Message queue")?;
    if !overlay.holds(QUEUE, call.world.mass_messages(), message) {
        return Err(Refusal::not_found("Message queue"));
    }
    let buyers = match message {
        0..CREATED => call.world.mass_message(message).buyers,
        _ => Series::all(0),
    };
    page_of(call, overlay, "buyers", buyers, |fan| user_ref(call, fan))
}
