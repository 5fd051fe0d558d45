//! The creator's chat room: its members, and the goals that tips count towards.

use serde_json::{Value, json};

use super::people::account;
use super::shapes::{
    AccountRef, Collection, account_id, body_id, id, list_of, mills, query_id, text_fields,
};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::series::Series;
use crate::world::trade::PaymentKind;
use crate::world::{DAY_MS, signed};

/// Row 0 is the room.
const ROOM: &str = "chatroom";
const GOALS: &str = "goals";
/// The number of newest payments among which tips count towards a goal.
const PAYMENTS_COUNTED: u64 = 300;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("chatroom", change)
        .get("chatroom/chatters", chatters)
        .get("chatroom/goal/tips", goal_tips)
        .post("chatroom/goal/update", update_goal)
        .get("account/tipgoals", goals)
}

fn goal_collection(call: &PlatformCall<'_>) -> Collection<'static> {
    let goals = if call.world.is_empty() { 0 } else { 2 };
    Collection { table: GOALS, series: Series::all(goals), kind: Kind::Goal }
}

/// Creates the room, or changes its `name` or `description`.
fn change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fields = text_fields(call, &["name", "description"])?;
    overlay.set(ROOM, 0, fields);
    Ok(Answer::ok(room(call, overlay)))
}

fn room(call: &PlatformCall<'_>, overlay: &Overlay) -> Value {
    let generated = json!({
        "id": id(call, Kind::Chat, 0),
        "accountId": account_id(call, AccountRef::Creator),
        "name": call.world.creator_name(),
        "description": "",
        "status": "open",
    });
    overlay.over(ROOM, 0, generated)
}

/// The room and its members: every seventh fan.
fn chatters(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let series = Series::of(call.world.fans, 7, &[3]);
    let collection = Collection { table: "chatters", series, kind: Kind::Fan };
    let row = |fan| account(call, overlay, AccountRef::Fan(fan));
    let mut answer = collection.list(call, overlay, "chatters", row)?;
    answer.add("chatRoom", room(call, overlay));
    Ok(answer)
}

/// The newest tips: those with an even number go to the first goal, the others to the second.
fn tips(call: &PlatformCall<'_>, goal: u64) -> Vec<(Value, i64)> {
    let world = call.world;
    let newest = 0..world.payments().count().min(PAYMENTS_COUNTED);
    let payments = newest.map(|index| world.payment(index));
    let tips =
        payments.filter(|payment| payment.kind == PaymentKind::Tip && payment.index % 2 == goal);
    let tip = |payment: crate::world::trade::Payment| {
        let row = json!({
            "id": id(call, Kind::Payment, payment.index),
            "accountId": account_id(call, AccountRef::Fan(payment.fan)),
            "amount": mills(payment.gross_cents),
            "createdAt": payment.paid_at_ms,
        });
        (row, mills(payment.gross_cents))
    };
    tips.map(tip).collect()
}

fn goal_json(call: &PlatformCall<'_>, overlay: &Overlay, goal: u64) -> Value {
    let current: i64 = tips(call, goal).iter().map(|(_, amount)| amount).sum();
    let (label, amount) = if goal == 0 { ("New camera", 2_000_000) } else { ("Trip", 5_000_000) };
    let generated = json!({
        "id": id(call, Kind::Goal, goal),
        "chatRoomId": id(call, Kind::Chat, 0),
        "accountId": account_id(call, AccountRef::Creator),
        "label": label,
        "description": "",
        "goalAmount": amount,
        "createdAt": call.world.end_ms - (signed(goal) + 1) * 10 * DAY_MS,
    });
    let mut shown = object(overlay.over(GOALS, goal, generated));
    let wanted = shown.get("goalAmount").and_then(Value::as_i64).unwrap_or_default();
    shown.insert("currentAmount".to_owned(), json!(current));
    shown.insert("reached".to_owned(), json!(current >= wanted));
    Value::Object(shown)
}

fn goals(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    goal_collection(call).list(call, overlay, "tipGoals", |goal| goal_json(call, overlay, goal))
}

fn goal_tips(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let goal = goal_collection(call).find(call, overlay, query_id(call, "goalId")?, "Goal")?;
    list_of(call, "tips", tips(call, goal), |(row, _)| row)
}

/// `goalId` and the changed fields: `label`, `description`, `goalAmount` in mills.
fn update_goal(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let goal = goal_collection(call).find(call, overlay, &body_id(call, "goalId")?, "Goal")?;
    let fields = call.fields(&["label", "description", "goalAmount"]);
    let fits = |(name, value): (&String, &Value)| match name.as_str() {
        "goalAmount" => value.as_i64().is_some_and(|amount| amount > 0),
        _ => value.is_string(),
    };
    if fields.is_empty() || !fields.iter().all(fits) {
        return Err(Refusal::bad_request("label, description or goalAmount is required"));
    }
    overlay.set(GOALS, goal, fields);
    Ok(Answer::ok(goal_json(call, overlay, goal)))
}
