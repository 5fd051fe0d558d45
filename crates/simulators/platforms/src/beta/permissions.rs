//! Who may see something: `permissionFlags`, an array of {`type`, `flags`, `metadata`}. Flag 1
//! requires a follower, 2 a subscriber to any tier, 4 a subscriber to the tier that the metadata
//! names.

use serde_json::{Value, json};

use super::shapes::id_text;
use super::tiers;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;

const TIMELINE: &str = "timeline-permissions";
const SPECIFIC_TIER: u64 = 4;
const FLAGS_MAX: u64 = 7;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("timeline/permissions", timeline).post("timeline/permissions", set_timeline)
}

/// The `permissionFlags` of the body; 400 if they are missing or invalid.
pub(super) fn sent(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Value, Refusal> {
    let sent = call.field("permissionFlags").as_array();
    let sent = sent.ok_or_else(|| Refusal::bad_request("permissionFlags is required"))?;
    let checked: Result<Vec<Value>, Refusal> =
        sent.iter().map(|entry| checked(call, overlay, entry)).collect();
    checked.map(Value::Array)
}

/// Like [`sent`], but an empty array if the body has none.
pub(super) fn sent_or_none(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Value, Refusal> {
    if call.field("permissionFlags").is_null() {
        return Ok(json!([]));
    }
    sent(call, overlay)
}

fn checked(call: &PlatformCall<'_>, overlay: &Overlay, entry: &Value) -> Result<Value, Refusal> {
    let kind = entry.get("type").and_then(Value::as_u64);
    let kind = kind.ok_or_else(|| Refusal::bad_request("type is required"))?;
    let flags = entry.get("flags").and_then(Value::as_u64).filter(|flags| *flags <= FLAGS_MAX);
    let flags = flags.ok_or_else(|| Refusal::bad_request("flags is not a sum of 1, 2, 4"))?;
    if flags & SPECIFIC_TIER == 0 {
        return Ok(json!({"type": kind, "flags": flags}));
    }
    let tier_id = entry.pointer("/metadata/subscriptionTierId").map(id_text);
    let tier_id = tier_id
        .ok_or_else(|| Refusal::bad_request("metadata.subscriptionTierId is required by flag 4"))?;
    tiers::collection(call).find(call, overlay, &tier_id, "Subscription tier")?;
    let metadata = json!({"subscriptionTierId": tier_id});
    Ok(json!({"type": kind, "flags": flags, "metadata": metadata}))
}

fn shown(overlay: &Overlay) -> Answer {
    let generated = json!({"permissionFlags": [{"type": 0, "flags": 1}], "updatedAt": null});
    Answer::ok(overlay.over(TIMELINE, 0, generated))
}

fn timeline(_: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(shown(overlay))
}

fn set_timeline(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let flags = sent(call, overlay)?;
    let fields = json!({"permissionFlags": flags, "updatedAt": call.now_ms});
    overlay.set(TIMELINE, 0, object(fields));
    Ok(shown(overlay))
}
