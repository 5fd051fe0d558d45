//! Notifications: the newest payments, and changes of the account, one by one.

use serde_json::{Value, json};

use super::insights::source;
use super::shapes::{Collection, id, user};
use crate::answer::Outcome;
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339;

const NOTIFICATIONS: &str = "notifications";
/// The number of payments that are listed.
const KEPT: u64 = 100;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.scopes(&["read:self"]).get("notifications", notifications)
}

fn notifications(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let series = Series::all(call.world.payments().count().min(KEPT));
    let collection = Collection { table: NOTIFICATIONS, series, kind: Kind::Event };
    collection.after_cursor(call, overlay, |index| {
        if index >= CREATED {
            let told = json!({"uuid": id(call, Kind::Event, index)});
            return overlay.over(NOTIFICATIONS, index, told);
        }
        let payment = call.world.payment(index);
        json!({
            "uuid": id(call, Kind::Event, index),
            "type": format!("{}_received", source(&payment)),
            "user": user(call, payment.fan),
            "amount": payment.gross_cents,
            "isRead": index > 4,
            "createdAt": rfc3339(payment.paid_at_ms),
        })
    })
}

/// Notifies the creator of an event, with the object that it concerns under `subject`.
pub(super) fn tell(call: &PlatformCall<'_>, overlay: &mut Overlay, kind: &str, subject: &Value) {
    let fields = json!({
        "type": kind,
        "subject": subject,
        "isRead": false,
        "createdAt": rfc3339(call.now_ms),
    });
    overlay.create(NOTIFICATIONS, object(fields));
}
