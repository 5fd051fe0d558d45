//! What happened lately: the newest payments, told one by one.

use serde_json::json;

use super::insights::source;
use super::shapes::{Collection, id, user};
use crate::platform::answer::Outcome;
use crate::platform::call::Call;
use crate::platform::routes::Routes;
use crate::shelf::Shelf;
use crate::world::ids::Kind;
use crate::world::series::Series;
use crate::world::time::rfc3339;

/// Older ones are forgotten.
const KEPT: u64 = 100;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.scopes(&["read:self"]).get("notifications", notifications)
}

fn notifications(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let series = Series::all(call.world.payments().count().min(KEPT));
    let collection = Collection { table: "notifications", series, kind: Kind::Event };
    collection.after_cursor(call, shelf, |index| {
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
