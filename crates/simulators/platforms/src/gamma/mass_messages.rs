//! Messages to all fans. They require a paid plan; one with a time in the future is scheduled and
//! can be edited and cancelled until then.

use http::Method;
use serde_json::{Value, json};

use super::messages::{check_fields, checked_body};
use super::profile::plan;
use super::shapes::{CURRENCY, id, index, own, rows};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::time::{parse_ms, rfc3339};

const MASS_MESSAGES: &str = "mass-messages";
/// The trailing slash is part of the platform's path.
const PATH: &str = "user/{id}/chat/mass-message/";
const ONE: &str = "user/{id}/chat/mass-message/{message_id}";

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get(PATH, mass_messages).post(PATH, send).write(Method::PUT, ONE, edit).write(
        Method::DELETE,
        ONE,
        cancel,
    )
}

fn mass_messages(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, MASS_MESSAGES, call.world.mass_messages(), |index| {
        mass_message_json(call, overlay, index)
    })
}

fn due_ms(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> i64 {
    if index < CREATED {
        return call.world.mass_message(index).sent_at_ms;
    }
    overlay.field(MASS_MESSAGES, index, "due_ms").and_then(Value::as_i64).unwrap_or(0)
}

fn status(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> &'static str {
    if overlay.field(MASS_MESSAGES, index, "cancelled_at").is_some() {
        return "cancelled";
    }
    if due_ms(call, overlay, index) <= call.now_ms { "sent" } else { "scheduled" }
}

fn mass_message_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let base = if index < CREATED {
        let message = call.world.mass_message(index);
        json!({
            "message": message.text,
            "message_price": message.price_cents,
            "currency": CURRENCY,
            "file_stack_id": null,
            "viewed_count": message.viewed,
            "purchased_count": message.buyers.count(),
            "created_at": rfc3339(message.sent_at_ms),
            "updated_at": rfc3339(message.sent_at_ms),
        })
    } else {
        json!({"viewed_count": 0, "purchased_count": 0})
    };
    let mut shown = object(overlay.over(MASS_MESSAGES, index, base));
    shown.remove("due_ms");
    let status = status(call, overlay, index);
    let reached = if status == "sent" { call.world.active_fans().count() } else { 0 };
    shown.insert("_id".to_owned(), json!(id(call, Kind::MassMessage, index)));
    shown.insert("status".to_owned(), json!(status));
    shown.insert("sent_count".to_owned(), json!(reached));
    shown.insert("to_be_posted_at".to_owned(), json!(rfc3339(due_ms(call, overlay, index))));
    Value::Object(shown)
}

fn send(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    own(call)?;
    if plan(call.world) == "free" {
        let message = "Mass messages are not part of your plan";
        return Err(Refusal::new(http::StatusCode::FORBIDDEN, "feature_not_available", message));
    }
    let mut fields = object(checked_body(call, overlay)?);
    let due_ms = sent_time(call)?.unwrap_or(call.now_ms);
    fields.insert("due_ms".to_owned(), json!(due_ms));
    let index = overlay.create(MASS_MESSAGES, fields);
    Ok(Answer::created(mass_message_json(call, overlay, index)))
}

/// The time in `to_be_posted_at`; a past one means now.
fn sent_time(call: &PlatformCall<'_>) -> Result<Option<i64>, Refusal> {
    let sent = call.field("to_be_posted_at");
    if sent.is_null() {
        return Ok(None);
    }
    let at_ms = sent.as_str().and_then(parse_ms);
    let at_ms = at_ms.ok_or_else(|| Refusal::bad_request("to_be_posted_at is not a time"))?;
    Ok(Some(at_ms.max(call.now_ms)))
}

/// A scheduled message; 409 if it was sent or cancelled.
fn waiting(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    own(call)?;
    let message = index(call, Kind::MassMessage, "message_id", "Mass message")?;
    if !overlay.holds(MASS_MESSAGES, call.world.mass_messages(), message) {
        return Err(Refusal::not_found("Mass message"));
    }
    match status(call, overlay, message) {
        "scheduled" => Ok(message),
        status => Err(Refusal::conflict(format!("The message is {status}"))),
    }
}

fn edit(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let message = waiting(call, overlay)?;
    check_fields(call, overlay)?;
    let mut fields = call.fields(&["message", "file_stack_id", "message_price"]);
    if let Some(text) = call.field("text").as_str() {
        fields.insert("message".to_owned(), json!(text));
    }
    if let Some(due_ms) = sent_time(call)? {
        fields.insert("due_ms".to_owned(), json!(due_ms));
    }
    if fields.is_empty() {
        return Err(Refusal::bad_request("Nothing to change"));
    }
    fields.insert("updated_at".to_owned(), json!(rfc3339(call.now_ms)));
    overlay.set(MASS_MESSAGES, message, fields);
    Ok(Answer::ok(mass_message_json(call, overlay, message)))
}

fn cancel(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let message = waiting(call, overlay)?;
    let fields = json!({"cancelled_at": rfc3339(call.now_ms)});
    overlay.set(MASS_MESSAGES, message, object(fields));
    Ok(Answer::ok(mass_message_json(call, overlay, message)))
}
