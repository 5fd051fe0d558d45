//! Sessions, the online status, and forms that the creator submits.

use serde_json::{Value, json};

use super::shapes::{Collection, NOTHING, id};
use super::two_factor;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::series::Series;
use crate::world::{DAY_MS, HOUR_MS, signed};

const SESSIONS: Collection<'static> =
    Collection { table: "sessions", series: Series::all(3), kind: Kind::Session };
const FORMS: &str = "forms";
const FORMS_SHOWN: u64 = 20;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("sessions", sessions)
        .get("account/verifynsfw", adult_verification)
        .post("status", set_status)
        .post("submit/v1", submit)
}

/// The sessions, and the state of two-factor authentication.
fn sessions(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let mut answer = SESSIONS.list(call, overlay, "sessions", |index| session(call, index))?;
    answer.add("twofa", two_factor::state(call, overlay));
    Ok(answer)
}

/// The first one is the session whose token the gateway has.
fn session(call: &PlatformCall<'_>, index: u64) -> Value {
    let device = match index {
        0 => "Creator tools",
        1 => "Phone",
        _ => "Browser",
    };
    let age_ms = signed(index);
    json!({
        "id": id(call, Kind::Session, index),
        "device": device,
        "ip": format!("198.51.100.{}", index + 10),
        "current": index == 0,
        "createdAt": call.world.end_ms - (age_ms * 30 + 5) * DAY_MS,
        "lastActiveAt": if index == 0 { call.now_ms } else { call.world.end_ms - age_ms * 9 * HOUR_MS },
    })
}

/// `statusId`: 1 offline, 2 online, 3 away.
fn set_status(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let sent = call.field("statusId").as_u64().filter(|status| (1..=3).contains(status));
    let status = sent.ok_or_else(|| Refusal::bad_request("statusId is not 1, 2 or 3"))?;
    super::account::set(overlay, json!({"statusId": status}));
    Ok(Answer::ok(json!({"statusId": status, "updatedAt": call.now_ms})))
}

/// `form`, such as `support`, and its contents in `data`.
fn submit(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let form = call.text("form")?;
    let fields = json!({
        "form": form,
        "data": call.field("data"),
        "status": "received",
        "createdAt": call.now_ms,
    });
    let index = overlay.create(FORMS, object(fields));
    Ok(Answer::ok(form_json(call, overlay, index)))
}

fn form_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    overlay.over(FORMS, index, json!({"id": id(call, Kind::Other, index)}))
}

/// Whether the account is verified, and the newest forms that it submitted.
fn adult_verification(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let verified_at = call.world.creator_joined_at_ms() + DAY_MS;
    let newest = overlay.page(FORMS, NOTHING, 0, FORMS_SHOWN).indexes.into_iter();
    let forms: Vec<Value> = newest.map(|index| form_json(call, overlay, index)).collect();
    Ok(Answer::ok(json!({"verified": true, "verifiedAt": verified_at, "submissions": forms})))
}
