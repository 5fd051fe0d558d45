//! Automatic top-up: its settings and its state.

use axum::extract::State;
use billing::charge::{self, PaymentStanding};
use billing::top_up_view::{self, DueCharge, TopUpView};
use billing::top_ups;
use domain::credits::Credits;
use domain::field_error::FieldErrorKind;
use domain::id::{CustomerId, OrderId};
use domain::key::KeyScope;
use domain::time::Timestamp;
use domain::top_up::{TopUpState, TopUpWaitReason, WAIT_S};
use failures::Failure;
use failures::FieldProblem;
use settings::billing::CURRENCY;
use store::orders;
use store::top_up_settings::{TopUpRequest, TopUpSettings};
use store::top_ups::TopUp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::WebState;
use web::auth::{Caller, UnrestrictedCaller};
use web::error::ApiError;
use web::extract::{NoQuery, OptionalJson};
use web::fields::{DecimalNumber, FieldProblems, GoodFields, RequestBody};

use super::card::ProcessorScript;
use crate::ApiState;

const CENTS_MAX: i64 = 99_999_999;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_autotopup, set_autotopup))
}

/// Automatic top-up.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct AutoTopUp {
    enabled: bool,
    /// The balance below which a charge is made. Null: it was never turned on.
    threshold_credits: Option<i64>,
    /// The pack to buy.
    pack_id: Option<String>,
    /// The maximum charged in one UTC day, in cents.
    daily_cap_cents: Option<i64>,
    /// The amount charged in this UTC day, including open charges, in cents.
    spent_today_cents: i64,
    /// Always `usd`.
    currency: &'static str,
    /// `daily_cap_cents` in dollars.
    daily_cap_usd: Option<f64>,
    /// Use `spent_today_cents`: the same amount in dollars.
    #[schema(deprecated)]
    spent_today_usd: f64,
    /// Why the service turned it off: `declined`, `card_removed`, `refund` or `dispute`; null
    /// otherwise.
    stopped_reason: Option<String>,
    /// No charge is made before this time, because the last one was declined.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    /// Why nothing is bought although the balance is below the threshold; null otherwise.
    #[schema(schema_with = web::words::top_up_wait)]
    waiting_reason: Option<TopUpWaitReason>,
    /// When that ends by itself. Null: when the settings or the balance change.
    #[schema(value_type = Option<String>, format = DateTime)]
    waiting_until: Option<Timestamp>,
    /// What is charged within seconds, because the balance is below the threshold; null if nothing
    /// is, or a charge is open already.
    charge_now: Option<ChargeNow>,
    /// The open charge.
    pending: Option<PendingTopUp>,
    /// Whether payments are possible on this deployment.
    processor_configured: bool,
}

/// A charge of automatic top-up that is about to be made.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ChargeNow {
    /// How many packs it buys.
    packs: i64,
    /// Their credits together.
    credits: i64,
    /// What the saved card is charged, in cents.
    amount_cents: i64,
    /// Always `usd`.
    currency: &'static str,
}

/// An open charge.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PendingTopUp {
    #[schema(value_type = String)]
    order_id: OrderId,
    /// `claimed` (in progress), or `requires_action`: the bank requires the customer to confirm,
    /// and no other charge is made until `POST /v1/billing/confirm-charge`.
    #[schema(schema_with = web::words::top_up_state)]
    state: TopUpState,
    /// Whether the bank requires the customer; then everything that a browser needs is here.
    requires_action: bool,
    /// The id to confirm after authenticating.
    pi_id: Option<String>,
    /// For the processor's script in the customer's browser, with `requires_action`. Only for
    /// callers of full scope, and not in the view of the card.
    client_secret: Option<String>,
    /// The card to charge, for the same script, with `client_secret`.
    payment_method_id: Option<String>,
    /// The key with which that script is started, with `client_secret`.
    publishable_key: Option<String>,
    /// The address of that script, with `client_secret`.
    js_url: Option<String>,
    /// When a charge that waits for the customer is cancelled.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// The settings of automatic top-up.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AutoTopUpIn {
    /// Whether to turn it on. Required, unless `enable` is sent.
    enabled: Option<bool>,
    /// An older name for `enabled`; if both are sent, they must be equal.
    #[schema(deprecated)]
    enable: Option<bool>,
    /// The balance below which a charge is made. An absent setting stays as it is.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    threshold_credits: Option<i64>,
    /// The pack to buy.
    pack_id: Option<String>,
    /// The maximum charged in one UTC day, in dollars with at most two decimals; at least the price
    /// of the pack.
    #[schema(value_type = Option<f64>, minimum = 0.5, maximum = 999_999.99, format = "usd")]
    daily_cap_usd: Option<DecimalNumber>,
}

impl RequestBody for AutoTopUpIn {
    fn check(fields: &GoodFields<'_>, _web: &WebState, problems: &mut FieldProblems) {
        let switch = |name: &str| fields.value(name).and_then(serde_json::Value::as_bool);
        let is_on = match (switch("enabled"), switch("enable")) {
            (Some(enabled), Some(enable)) if enabled != enable => {
                let message = "must be the same as `enabled`; send only `enabled`";
                return problems.body("enable", FieldErrorKind::NotAllowed, message);
            }
            (None, None) => {
                // A value of the wrong type has already been reported.
                if fields.is_absent("enabled") && fields.is_absent("enable") {
                    let message = "is required: `true` turns automatic top-up on, `false` off";
                    problems.body("enabled", FieldErrorKind::Missing, message);
                }
                return;
            }
            (enabled, enable) => enabled.or(enable).unwrap_or(false),
        };
        if is_on {
            return;
        }
        for field in ["threshold_credits", "pack_id", "daily_cap_usd"] {
            if fields.value(field).is_some() {
                let message = "can only be sent with `enabled: true`";
                problems.body(field, FieldErrorKind::NotAllowed, message);
            }
        }
    }
}

impl AutoTopUpIn {
    /// Whether to turn it on, by either name.
    fn is_on(&self) -> bool {
        self.enabled.or(self.enable).unwrap_or(false)
    }
}

/// Shows automatic top-up, with what a browser needs for a charge that waits for authentication.
#[utoipa::path(
    get, path = "/v1/billing/autotopup", tag = "billing", responses((status = 200, body = AutoTopUp))
)]
async fn get_autotopup(
    State(api): State<ApiState>,
    caller: Caller,
    _: NoQuery,
) -> Result<axum::Json<AutoTopUp>, ApiError> {
    caller.refuse_limited()?;
    let mut shown = shown(&api, caller.customer).await?;
    if let Some(pending) = &mut shown.pending
        && pending.state == TopUpState::RequiresAction
        && caller.scope() == KeyScope::Full
    {
        pending.show_action(&api, caller.customer).await;
    }
    Ok(axum::Json(shown))
}

/// Turns automatic top-up on or off, or changes it.
#[utoipa::path(
    post, path = "/v1/billing/autotopup", tag = "billing", request_body = Option<AutoTopUpIn>,
    responses(
        (status = 200, body = AutoTopUp),
    )
)]
async fn set_autotopup(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    OptionalJson(wanted): OptionalJson<AutoTopUpIn>,
) -> Result<axum::Json<AutoTopUp>, ApiError> {
    let known = top_up_view::view(&api.billing, caller.customer).await?.settings;
    if wanted.is_on() {
        let wish = wish(&api, caller.customer, &wanted, known.as_ref())?;
        let set = top_ups::turn_on(&api.billing, &wish).await?;
        return Ok(axum::Json(shown_view(&api, set)));
    }
    top_ups::turn_off(&api.billing, caller.customer).await?;
    shown(&api, caller.customer).await.map(axum::Json)
}

/// Automatic top-up as shown together with the card.
pub(super) async fn shown(api: &ApiState, customer: CustomerId) -> Result<AutoTopUp, ApiError> {
    let view = top_up_view::view(&api.billing, customer).await?;
    Ok(shown_view(api, view))
}

fn shown_view(api: &ApiState, view: TopUpView) -> AutoTopUp {
    let settings = view.settings.as_ref();
    let wait = settings.filter(|known| known.enabled).and_then(|known| known.wait);
    let wait = wait.filter(|wait| wait.until.is_none_or(|until| until > api.clock.now()));
    let waits = |known: &TopUpSettings| {
        let is_later = known.enabled && known.next_attempt_at > api.clock.now();
        is_later.then_some(known.next_attempt_at)
    };
    AutoTopUp {
        enabled: settings.is_some_and(|settings| settings.enabled),
        threshold_credits: settings.map(|settings| settings.threshold.whole()),
        pack_id: settings.map(|settings| settings.pack_id.clone()),
        daily_cap_cents: settings.map(|settings| settings.daily_cap_cents),
        spent_today_cents: view.spent_today_cents,
        currency: CURRENCY,
        daily_cap_usd: settings.map(|settings| usd(settings.daily_cap_cents)),
        spent_today_usd: usd(view.spent_today_cents),
        stopped_reason: settings.and_then(|settings| settings.stopped_reason.clone()),
        next_attempt_at: settings.and_then(waits),
        waiting_reason: wait.map(|wait| wait.reason),
        waiting_until: wait.and_then(|wait| wait.until),
        charge_now: view.due.map(ChargeNow::from),
        pending: view.open.map(PendingTopUp::from),
        processor_configured: api.config.processor.is_configured(),
    }
}

impl From<DueCharge> for ChargeNow {
    fn from(due: DueCharge) -> Self {
        Self { packs: due.packs, credits: due.credits, amount_cents: due.cents, currency: CURRENCY }
    }
}

impl From<TopUp> for PendingTopUp {
    fn from(open: TopUp) -> Self {
        let requires_action = open.state == TopUpState::RequiresAction;
        Self {
            order_id: open.order,
            state: open.state,
            requires_action,
            pi_id: open.intent,
            client_secret: None,
            payment_method_id: None,
            publishable_key: None,
            js_url: None,
            expires_at: requires_action.then(|| open.claimed_at.plus_seconds(WAIT_S)),
        }
    }
}

impl PendingTopUp {
    /// Adds what a browser needs. The secret is read from the processor and stored nowhere. Without
    /// it the view is shown all the same.
    async fn show_action(&mut self, api: &ApiState, customer: CustomerId) {
        let read = async {
            let order = orders::find(&api.store, customer, self.order_id).await.ok()??;
            match charge::look(&api.billing, &order).await.ok()? {
                PaymentStanding::Waiting(action) => Some(action),
                PaymentStanding::Processing | PaymentStanding::Paid | PaymentStanding::Over => None,
            }
        };
        let Some(action) = read.await else { return };
        let script = ProcessorScript::of(api);
        self.client_secret = Some(action.client_secret.expose().to_owned());
        self.payment_method_id = action.payment_method;
        (self.publishable_key, self.js_url) = (script.publishable_key, script.js_url);
    }
}

fn wish<'a>(
    api: &ApiState,
    customer: CustomerId,
    wanted: &'a AutoTopUpIn,
    known: Option<&'a TopUpSettings>,
) -> Result<TopUpRequest<'a>, ApiError> {
    let threshold = wanted.threshold_credits.or_else(|| known.map(|known| known.threshold.whole()));
    let cap = wanted.daily_cap_usd.as_ref().map(|amount| cents(&amount.0)).transpose()?;
    let cap = cap.or_else(|| known.map(|known| known.daily_cap_cents));
    let pack_id = wanted.pack_id.as_deref().or_else(|| known.map(|known| known.pack_id.as_str()));
    let (Some(threshold), Some(daily_cap_cents), Some(pack_id)) = (threshold, cap, pack_id) else {
        return Err(missing([
            ("threshold_credits", threshold.is_none()),
            ("pack_id", pack_id.is_none()),
            ("daily_cap_usd", cap.is_none()),
        ]));
    };
    let pack = billing::pack(&api.billing, pack_id)?;
    if daily_cap_cents < pack.price_cents {
        let message =
            format!("must be at least the price of the pack, {:.2}", usd(pack.price_cents));
        return Err(FieldProblem::new(
            "body",
            "daily_cap_usd",
            FieldErrorKind::OutOfRange,
            message,
        )
        .into());
    }
    let threshold = Credits::from_whole(threshold);
    Ok(TopUpRequest { customer, threshold, pack_id, daily_cap_cents, at: api.clock.now() })
}

/// An amount in cents, parsed exactly: a number with at most two decimals, never through a float.
fn cents(text: &str) -> Result<i64, ApiError> {
    let problem = || {
        let message = "must be a number from 0.5 to 999999.99 with at most two decimals";
        ApiError::from(FieldProblem::new(
            "body",
            "daily_cap_usd",
            FieldErrorKind::OutOfRange,
            message,
        ))
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain = |digits: &str, longest: usize| {
        (1..=longest).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_plain(whole, 6) || !is_plain(part, 2) {
        return Err(problem());
    }
    let cents: i64 = format!("{whole}{part:0<2}").parse().map_err(|_| problem())?;
    if (50..=CENTS_MAX).contains(&cents) { Ok(cents) } else { Err(problem()) }
}

/// In dollars, for people; amounts have at most eight digits.
fn usd(cents: i64) -> f64 {
    f64::from(i32::try_from(cents).unwrap_or(i32::MAX)) / 100.0
}

/// Reports every required setting that was neither sent nor set before.
fn missing(settings: [(&str, bool); 3]) -> ApiError {
    let kind = FieldErrorKind::Missing;
    let absent = settings.iter().filter(|(_, is_absent)| *is_absent);
    let named = absent.map(|(field, _)| {
        FieldProblem::new("body", field, kind, "is required to turn automatic top-up on")
    });
    ApiError::Failure(Failure::Invalid(named.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_exactly_or_refused() {
        for (text, expected) in [
            ("50", 5_000),
            ("50.5", 5_050),
            ("50.05", 5_005),
            ("0.5", 50),
            ("0.29", 0),
            ("999999.99", 99_999_999),
            ("10.10", 1_010),
            // A float would make this 1,999.
            ("20.00", 2_000),
            ("19.99", 1_999),
        ] {
            assert_eq!(cents(text).unwrap_or(0), expected, "{text}");
        }
        for text in [
            "0.001",
            "NaN",
            "1e308",
            "\"10\"",
            "-1",
            "1e2",
            "1000000",
            "1.",
            ".5",
            "50.555",
            "",
            "null",
            "true",
            "0",
            "9223372036854775808",
            "+5",
            "5 ",
        ] {
            assert!(cents(text).is_err(), "{text}");
        }
    }
}
