//! Two-factor authentication with one-time codes. Enabling it returns eight codes; entering the
//! first proves that they arrived, and each works once.

use serde_json::{Value, json};
use simulator_kit::seeded_random::mix;

use super::shapes::{Collection, NOTHING, body_id, id};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::MINUTE_MS;
use crate::world::ids::Kind;

/// Row 0: whether it is enabled, and the unused codes.
const TABLE: &str = "two-factor";
const SESSIONS: Collection<'static> =
    Collection { table: "two-factor-sessions", series: NOTHING, kind: Kind::Session };
const CODES: u64 = 8;
const SESSIONS_SHOWN: u64 = 5;
const SESSION_MS: i64 = 10 * MINUTE_MS;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("twofa", begin)
        .post("twofa/verify", verify)
        .post("twofa/remove", remove)
        .post("twofa/session/create", create_session)
        .post("twofa/session/verify", verify_session)
}

/// Whether the account has it enabled.
pub(super) fn is_on(overlay: &Overlay) -> bool {
    overlay.field(TABLE, 0, "enabled") == Some(&Value::Bool(true))
}

/// Whether it is enabled, how many codes are left, and the newest sessions that requested one.
pub(super) fn state(call: &PlatformCall<'_>, overlay: &Overlay) -> Value {
    let codes = overlay.field(TABLE, 0, "codes").and_then(Value::as_array).map_or(0, Vec::len);
    let newest = overlay.page(SESSIONS.table, NOTHING, 0, SESSIONS_SHOWN).indexes.into_iter();
    let sessions: Vec<Value> = newest.map(|index| session(call, overlay, index)).collect();
    json!({
        "enabled": is_on(overlay),
        "pending": !is_on(overlay) && codes > 0,
        "codesLeft": codes,
        "sessions": sessions,
    })
}

fn begin(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    if is_on(overlay) {
        return Err(Refusal::conflict("Two-factor authentication is on"));
    }
    let seed = mix(overlay.next_index()) ^ call.now_ms.unsigned_abs();
    let code = |nth: u64| format!("{:06}", mix(seed.wrapping_add(nth)) % 1_000_000);
    let codes: Vec<String> = (0..CODES).map(code).collect();
    overlay.set(TABLE, 0, object(json!({"enabled": false, "codes": codes})));
    Ok(Answer::ok(json!({"enabled": false, "codes": codes})))
}

/// The unused codes without the one in the body; 400 if that is not one of them.
fn without_sent_code(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Vec<Value>, Refusal> {
    let sent = call.text("code")?;
    let codes = overlay.field(TABLE, 0, "codes").and_then(Value::as_array);
    let mut codes = codes.cloned().unwrap_or_default();
    let place = codes.iter().position(|code| code.as_str() == Some(sent));
    codes.remove(place.ok_or_else(|| Refusal::bad_request("The code is wrong"))?);
    Ok(codes)
}

fn verify(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let left = without_sent_code(call, overlay)?;
    let answer = json!({"enabled": true, "codesLeft": left.len()});
    overlay.set(TABLE, 0, object(json!({"enabled": true, "codes": left})));
    Ok(Answer::ok(answer))
}

fn on(overlay: &Overlay) -> Result<(), Refusal> {
    let off = || Refusal::conflict("Two-factor authentication is off");
    if is_on(overlay) { Ok(()) } else { Err(off()) }
}

fn remove(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    on(overlay)?;
    without_sent_code(call, overlay)?;
    overlay.set(TABLE, 0, object(json!({"enabled": false, "codes": []})));
    Ok(Answer::ok(json!({"enabled": false})))
}

/// Requests a code before an operation that needs one.
fn create_session(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    on(overlay)?;
    let fields = json!({"status": "created", "expiresAt": call.now_ms + SESSION_MS});
    let index = overlay.create(SESSIONS.table, object(fields));
    Ok(Answer::ok(session(call, overlay, index)))
}

fn session(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    overlay.over(SESSIONS.table, index, json!({"id": id(call, SESSIONS.kind, index)}))
}

fn verify_session(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    on(overlay)?;
    let index = SESSIONS.find(call, overlay, &body_id(call, "sessionId")?, "Session")?;
    let expires = overlay.field(SESSIONS.table, index, "expiresAt").and_then(Value::as_i64);
    if expires.is_none_or(|expires_ms| expires_ms < call.now_ms) {
        return Err(Refusal::conflict("The session has expired"));
    }
    let left = without_sent_code(call, overlay)?;
    overlay.set(TABLE, 0, object(json!({"codes": left})));
    overlay.set(SESSIONS.table, index, object(json!({"status": "verified"})));
    Ok(Answer::ok(session(call, overlay, index)))
}
