//! Notices: which emails a customer gets without asking.

use axum::Json as Answer;
use axum::extract::State;
use domain::credits::Credits;
use domain::id::CustomerId;
use domain::notice::NoticeKind;
use runtime::audit::{self, AuditRecord};
use serde_json::{Map, Value};
use store::notice_choices::{self, NoticeChoice};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::{Caller, UnrestrictedCaller};
use web::error::ApiError;
use web::extract::{NoQuery, OptionalJson};
use web::fields::RequestBody;

use super::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_notices, update_notices))
}

/// Which emails the customer gets without asking. The email about a changed password is always
/// sent.
#[expect(clippy::struct_excessive_bools, reason = "a switch for each kind, as in the JSON")]
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct NoticesOut {
    /// The balance fell below `low_balance_credits`. Sent once for each fall.
    low_balance: bool,
    /// The balance below which `low_balance` is sent: the customer's own, or the service's default.
    /// The default does not apply while automatic top-up is on; 0: there is none.
    low_balance_credits: i64,
    /// A key has used 80 or 100 percent of its monthly budget.
    key_budgets: bool,
    /// Credits expire soon.
    expiring_credits: bool,
    /// The saved card expires in this month or the next one.
    expiring_card: bool,
    /// Automatic top-up charged the card, or an invoice of the subscription was paid.
    payments: bool,
    /// The subscription has ended.
    subscription_end: bool,
    /// A key was created, or got a new secret.
    key_changes: bool,
    /// An export has finished. Off unless it is switched on.
    exports: bool,
}

/// The changes; absent fields stay as they are.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoticesPatch {
    /// Whether to send an email when the balance falls below `low_balance_credits`.
    low_balance: Option<bool>,
    /// The balance below which it is sent.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    low_balance_credits: Option<i64>,
    /// Whether to send an email when a key has used 80 or 100 percent of its monthly budget.
    key_budgets: Option<bool>,
    /// Whether to send an email before credits expire.
    expiring_credits: Option<bool>,
    /// Whether to send an email before the saved card expires.
    expiring_card: Option<bool>,
    /// Whether to send an email about each automatic payment.
    payments: Option<bool>,
    /// Whether to send an email when the subscription has ended.
    subscription_end: Option<bool>,
    /// Whether to send an email when a key was created or got a new secret.
    key_changes: Option<bool>,
    /// Whether to send an email when an export has finished.
    exports: Option<bool>,
}

impl RequestBody for NoticesPatch {}

impl NoticesPatch {
    const fn switch(&self, kind: NoticeKind) -> Option<bool> {
        match kind {
            NoticeKind::LowBalance => self.low_balance,
            NoticeKind::KeyBudgets => self.key_budgets,
            NoticeKind::ExpiringCredits => self.expiring_credits,
            NoticeKind::ExpiringCard => self.expiring_card,
            NoticeKind::Payments => self.payments,
            NoticeKind::SubscriptionEnd => self.subscription_end,
            NoticeKind::KeyChanges => self.key_changes,
            NoticeKind::Exports => self.exports,
            NoticeKind::Password => None,
        }
    }

    /// The decisions that it changes, given those that are known.
    fn choices(&self, known: &CustomerChoices) -> Vec<NoticeChoice> {
        let choice = |kind: &NoticeKind| {
            let threshold = match kind {
                NoticeKind::LowBalance => self.low_balance_credits.map(Credits::from_whole),
                _ => None,
            };
            let switch = self.switch(*kind);
            (switch.is_some() || threshold.is_some()).then(|| NoticeChoice {
                kind: *kind,
                is_on: switch.unwrap_or_else(|| known.is_on(*kind)),
                threshold,
            })
        };
        NoticeKind::ALL.iter().filter_map(choice).collect()
    }
}

/// What a customer decided.
struct CustomerChoices(Vec<NoticeChoice>);

impl CustomerChoices {
    fn find(&self, kind: NoticeKind) -> Option<&NoticeChoice> {
        self.0.iter().find(|choice| choice.kind == kind)
    }

    fn is_on(&self, kind: NoticeKind) -> bool {
        self.find(kind).map_or(kind.is_on_by_default(), |choice| choice.is_on)
    }
}

/// Shows which emails the customer gets without asking.
#[utoipa::path(
    get, path = "/v1/notices", tag = "notices", responses((status = 200, body = NoticesOut))
)]
async fn get_notices(
    State(api): State<ApiState>,
    caller: Caller,
    _: NoQuery,
) -> Result<Answer<NoticesOut>, ApiError> {
    caller.refuse_limited()?;
    shown(&api, caller.customer).await
}

/// Changes which emails the customer gets without asking.
#[utoipa::path(
    patch, path = "/v1/notices", tag = "notices", request_body = Option<NoticesPatch>,
    responses((status = 200, body = NoticesOut))
)]
async fn update_notices(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    OptionalJson(patch): OptionalJson<NoticesPatch>,
) -> Result<Answer<NoticesOut>, ApiError> {
    let customer = caller.customer;
    let known = CustomerChoices(notice_choices::list(&api.store, customer).await?);
    let choices = patch.choices(&known);
    if !choices.is_empty() {
        let record = AuditRecord {
            customer,
            actor: caller.actor(),
            action: audit::NOTICES_CHANGED,
            details: described(&choices),
        };
        let entry = record.now(&api.clock, &api.random);
        notice_choices::set(&api.store, &choices, &entry).await?;
    }
    shown(&api, customer).await
}

/// The decisions, for the audit list.
fn described(choices: &[NoticeChoice]) -> Value {
    let mut fields = Map::new();
    for choice in choices {
        fields.insert(choice.kind.to_string(), choice.is_on.into());
        if let Some(threshold) = choice.threshold {
            fields.insert("low_balance_credits".to_owned(), threshold.whole().into());
        }
    }
    Value::Object(fields)
}

async fn shown(api: &ApiState, customer: CustomerId) -> Result<Answer<NoticesOut>, ApiError> {
    let known = CustomerChoices(notice_choices::list(&api.store, customer).await?);
    let own = known.find(NoticeKind::LowBalance).and_then(|choice| choice.threshold);
    let threshold = own.unwrap_or_else(|| api.config.notices.low_balance());
    Ok(Answer(NoticesOut {
        low_balance: known.is_on(NoticeKind::LowBalance),
        low_balance_credits: threshold.whole(),
        key_budgets: known.is_on(NoticeKind::KeyBudgets),
        expiring_credits: known.is_on(NoticeKind::ExpiringCredits),
        expiring_card: known.is_on(NoticeKind::ExpiringCard),
        payments: known.is_on(NoticeKind::Payments),
        subscription_end: known.is_on(NoticeKind::SubscriptionEnd),
        key_changes: known.is_on(NoticeKind::KeyChanges),
        exports: known.is_on(NoticeKind::Exports),
    }))
}
