//! Slots: how many accounts may be active on each platform, and buying, giving up and moving extra
//! ones.

use axum::extract::State;
use billing::decide::{ChangeRequest, Target};
use billing::offered_prices::{self, PricedOffer};
use billing::{changes, plans};
use domain::account::CreatorId;
use domain::field_error::FieldErrorKind;
use domain::id::{ChangeId, CustomerId};
use domain::platform::Platform;
use domain::slot::SlotChangeKind;
use domain::time::Timestamp;
use failures::Failure;
use failures::FieldProblem;
use failures::PaymentProblem;
use settings::billing::{CURRENCY, INTERVAL};
use store::slot_changes::{SlotChange, SlotChangeItem};
use store::slot_limits::{self, SlotUsage};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::{Caller, UnrestrictedCaller};
use web::error::ApiError;
use web::extract::{Json, NoQuery};
use web::fields::{FieldProblems, GoodFields, RequestBody};
use web::own_requests::ChangeOfRequest;
use web::words;

use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_slots, set_slots)).routes(routes!(switch_slot))
}

/// The slots of every platform.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Slots {
    slots: Vec<SlotOut>,
    /// A change in progress; null if there is none.
    change: Option<ChangeOut>,
}

/// The slots of one platform. Each active account uses one.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SlotOut {
    #[schema(schema_with = words::platform)]
    platform: Platform,
    /// The price of an extra slot per `interval`, in cents; null if none is sold.
    price_cents: Option<i64>,
    /// Always `usd`; null if none is sold.
    currency: Option<&'static str>,
    /// Always `month`; null if none is sold.
    interval: Option<&'static str>,
    /// Whether more extra slots can be bought. False if none is sold, and while their price at the
    /// payment processor is not the one here.
    available: bool,
    /// The extra slots of the subscription.
    count: i64,
    /// The slots included in the plan.
    included: i64,
    /// How many accounts may be active: `free_allowance` + `included` + `count`, minus slots being
    /// given up.
    limit: i64,
    /// Connected accounts, active or inactive.
    connected: i64,
    /// Active accounts; never more than `limit`.
    active: i64,
    /// The slots that every customer has.
    free_allowance: i64,
}

/// A change whose outcome is not known yet.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ChangeOut {
    #[schema(value_type = String)]
    change_id: ChangeId,
    /// `raise`, `lower`, `switch` or `plan`.
    #[schema(schema_with = words::slot_change_kind)]
    kind: SlotChangeKind,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    items: Vec<ChangeItemOut>,
}

/// One part of a change.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ChangeItemOut {
    /// The platform of the slots; null for the plan.
    #[schema(value_type = Option<String>)]
    platform: Option<Platform>,
    /// The plan after the change; null for slots.
    plan_id: Option<String>,
    count_before: i64,
    count_after: i64,
}

impl From<SlotChange> for ChangeOut {
    fn from(change: SlotChange) -> Self {
        let item = |item: SlotChangeItem| ChangeItemOut {
            platform: item.platform,
            plan_id: item.plan_id,
            count_before: item.count_before,
            count_after: item.count_after,
        };
        Self {
            change_id: change.id,
            kind: change.kind,
            created_at: change.created_at,
            items: change.items.into_iter().map(item).collect(),
        }
    }
}

impl Slots {
    async fn new(api: &ApiState, usage: SlotUsage) -> Result<Self, ApiError> {
        let unavailable = offered_prices::unavailable(&api.billing).await?;
        let available = |platform: Platform| {
            let sold = plans::slot(&api.billing, platform);
            sold.is_some_and(|sold| unavailable.allow(PricedOffer::Item(sold)))
        };
        let price =
            |platform: Platform| plans::slot(&api.billing, platform).map(|sold| sold.cents());
        let slot = |platform: Platform| SlotOut {
            platform,
            price_cents: price(platform),
            currency: price(platform).map(|_| CURRENCY),
            interval: price(platform).map(|_| INTERVAL),
            available: available(platform),
            count: usage.limits.extra.on(platform),
            included: usage.limits.plan.on(platform),
            limit: usage.limits.limit.on(platform),
            connected: usage.connected.on(platform),
            active: usage.active.on(platform),
            free_allowance: api.allowances.included.on(platform),
        };
        Ok(Self {
            slots: Platform::all().into_iter().map(slot).collect(),
            change: usage.open.map(ChangeOut::from),
        })
    }
}

async fn slots(api: &ApiState, customer: CustomerId) -> Result<axum::Json<Slots>, ApiError> {
    let usage = slot_limits::usage(&api.store, customer, &api.allowances).await?;
    Ok(axum::Json(Slots::new(api, usage).await?))
}

/// The slots after a change, and what the change cost.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SlotsChanged {
    #[serde(flatten)]
    slots: Slots,
    /// The amount charged now, in cents, with tax; null while it is unknown.
    charged_cents: Option<i64>,
    /// The invoice that was paid; null if nothing was charged.
    invoice_id: Option<String>,
}

async fn changed(
    api: &ApiState,
    wish: ChangeRequest,
) -> Result<axum::Json<SlotsChanged>, ApiError> {
    let customer = wish.customer;
    let made = changes::make(&api.billing, wish).await?;
    let usage = slot_limits::usage(&api.store, customer, &api.allowances).await?;
    Ok(axum::Json(SlotsChanged {
        slots: Slots::new(api, usage).await?,
        charged_cents: made.charged_cents,
        invoice_id: made.invoice_id,
    }))
}

/// Shows the slots of every platform, and how many of them are in use.
#[utoipa::path(
    get, path = "/v1/billing/slots", tag = "billing", responses((status = 200, body = Slots))
)]
async fn get_slots(
    State(api): State<ApiState>,
    caller: Caller,
    _: NoQuery,
) -> Result<axum::Json<Slots>, ApiError> {
    caller.refuse_limited()?;
    slots(&api, caller.customer).await
}

/// The number of extra slots to set.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SlotsIn {
    /// `platform_alpha` or `platform_beta`.
    #[schema(schema_with = words::platform)]
    platform: Platform,
    /// The exact number of extra slots, 0 to 1,000.
    #[schema(minimum = 0, maximum = 1000)]
    count: i64,
    /// An inactive account of the platform that should become active before others.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, format = "creator-id")]
    creator_id: Option<CreatorId>,
}

impl RequestBody for SlotsIn {
    fn check(fields: &GoodFields<'_>, _web: &WebState, problems: &mut FieldProblems) {
        check_sold(fields, "platform", problems);
    }
}

/// Sets the number of extra slots on a platform. Additional slots are charged immediately to the
/// saved card for the rest of the period, and count only once they are paid; removed slots are
/// credited on the next invoice. The billing date stays the same. Accounts that now have a slot
/// become active immediately. Setting the current number changes nothing.
#[utoipa::path(
    post, path = "/v1/billing/slots", tag = "billing", request_body = SlotsIn,
    responses(
        (status = 200, description = "the slots as they are now", body = SlotsChanged),
    )
)]
async fn set_slots(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    ChangeOfRequest(change): ChangeOfRequest,
    Json(wanted): Json<SlotsIn>,
) -> Result<axum::Json<SlotsChanged>, ApiError> {
    check_creator(&api, &caller, wanted.creator_id.as_ref(), wanted.platform).await?;
    let wish = ChangeRequest {
        id: change,
        customer: caller.customer,
        actor: caller.actor(),
        creator: wanted.creator_id,
        target: Target::Slots(wanted.platform, wanted.count),
    };
    changed(&api, wish).await
}

/// The extra slot to move.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SwitchIn {
    /// The platform that has one slot fewer afterwards.
    #[schema(schema_with = words::platform)]
    from: Platform,
    /// The platform that has one slot more afterwards.
    #[schema(schema_with = words::platform)]
    to: Platform,
    /// An inactive account of `to` that should become active before others.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, format = "creator-id")]
    creator_id: Option<CreatorId>,
}

impl RequestBody for SwitchIn {
    fn check(fields: &GoodFields<'_>, _web: &WebState, problems: &mut FieldProblems) {
        check_sold(fields, "from", problems);
        check_sold(fields, "to", problems);
        if fields.text("from").is_some() && fields.text("from") == fields.text("to") {
            let message = "must be a different platform than `from`";
            problems.body("to", FieldErrorKind::NotAllowed, message);
        }
    }
}

/// Moves one extra slot from one platform to the other, in one change of the subscription. The
/// difference between the two prices is on the next invoice; nothing is charged immediately.
#[utoipa::path(
    post, path = "/v1/billing/slots/switch", tag = "billing", request_body = SwitchIn,
    responses(
        (status = 200, description = "the slots as they are now", body = SlotsChanged),
    )
)]
async fn switch_slot(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    ChangeOfRequest(change): ChangeOfRequest,
    Json(wanted): Json<SwitchIn>,
) -> Result<axum::Json<SlotsChanged>, ApiError> {
    check_creator(&api, &caller, wanted.creator_id.as_ref(), wanted.to).await?;
    let wish = ChangeRequest {
        id: change,
        customer: caller.customer,
        actor: caller.actor(),
        creator: wanted.creator_id,
        target: Target::Switch(wanted.from, wanted.to),
    };
    changed(&api, wish).await.map_err(|error| unknown_switch(change, error))
}

/// Without an `Idempotency-Key`, a repeated switch cannot be recognized.
fn unknown_switch(change: Option<ChangeId>, error: ApiError) -> ApiError {
    match error {
        ApiError::Failure(Failure::Payment(PaymentProblem::ChangeUnknown(cause)))
            if change.is_none() =>
        {
            PaymentProblem::RelativeChangeUnknown(cause).into()
        }
        error => error,
    }
}

/// The message for platforms that sell no extra slots; `None` for those that do.
pub(super) fn not_sold(platform: Platform) -> Option<String> {
    if platform.sells_slots() {
        return None;
    }
    let sold = Platform::all().into_iter().filter(|other| other.sells_slots());
    let names: Vec<_> = sold.map(Platform::as_str).collect();
    Some(format!("must be {}: extra slots are sold only for these", names.join(" or ")))
}

/// Reports a field of the body that names a platform without extra slots.
fn check_sold(fields: &GoodFields<'_>, field: &str, problems: &mut FieldProblems) {
    if let Some(message) = fields.parsed(field).and_then(not_sold) {
        problems.body(field, FieldErrorKind::NotAllowed, message);
    }
}

/// The named account must be the customer's, and on the platform that gets the slot.
async fn check_creator(
    api: &ApiState,
    caller: &Caller,
    creator: Option<&CreatorId>,
    platform: Platform,
) -> Result<(), ApiError> {
    let Some(creator) = creator else { return Ok(()) };
    let found = store::accounts::find(&api.store, caller.customer, creator).await?;
    let account = found.ok_or(ApiError::Failure(Failure::AccountNotFound))?;
    if account.platform == platform {
        return Ok(());
    }
    let message = format!("must be an account on {platform}; this one is on {}", account.platform);
    Err(FieldProblem::new("body", "creator_id", FieldErrorKind::NotAllowed, message).into())
}
