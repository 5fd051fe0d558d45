//! `/console/billing/plans/{plan_id}`: what a change of the plan costs, before it is made.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use futures_util::future::join3;
use http::{Method, StatusCode};
use serde_json::json;

use crate::model::{OverLimit, PlanList, PlanOffer, Subscription};
use crate::part::{BillingTab, refused, show};
use crate::plans::PATH as PLANS;
use console_kit::ConsoleState;
use console_kit::address::segment;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::SentForm;
use console_kit::form_target::FormTarget;
use console_kit::format;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route("/console/billing/plans/{plan_id}", get(preview).post(change))
}

/// The page of a plan.
pub(crate) fn path(plan_id: &str) -> String {
    format!("{PLANS}/{}", segment(plan_id))
}

/// `GET /v1/billing/subscription/plan/preview`.
#[derive(serde::Deserialize)]
struct PlanPreview {
    effective_at: String,
    charged_now_cents: i64,
    credited_cents: i64,
    credits_granted: i64,
    over_limit: Vec<OverLimit>,
    period_end: Option<String>,
    proration_date: String,
    holds_until: String,
}

impl PlanPreview {
    /// Whether it takes effect now.
    fn is_now(&self) -> bool {
        self.effective_at == self.proration_date
    }

    fn charged(&self) -> String {
        format::dollars(self.charged_now_cents)
    }

    /// The credit for unused time, if there is some.
    fn credited(&self) -> Option<String> {
        (self.credited_cents > 0).then(|| format::dollars(self.credited_cents))
    }

    fn granted(&self) -> String {
        format::credits(self.credits_granted)
    }

    fn period_end(&self) -> String {
        self.period_end.as_deref().map(format::day).unwrap_or_default()
    }

    fn holds_until(&self) -> String {
        format::time(&self.holds_until)
    }
}

#[derive(Template)]
#[template(path = "console/billing/plan_change.html")]
struct PlanChangePage {
    frame: PageShell,
    subscription: Subscription,
    /// The plan that is chosen.
    plan: PlanOffer,
    preview: PlanPreview,
    target: FormTarget,
}

async fn preview(
    Path(plan_id): Path<String>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let query = serde_urlencoded::to_string([("plan_id", &plan_id)]).unwrap_or_default();
    let wanted = format!("/v1/billing/subscription/plan/preview?{query}");
    let (preview, plans, subscription) = join3(
        visitor.try_get::<PlanPreview>(&wanted),
        visitor.get::<PlanList>("/v1/billing/subscriptions/plans"),
        visitor.get::<Subscription>("/v1/billing/subscription"),
    )
    .await;
    let (plans, subscription) = (plans?, subscription?);
    let preview = match preview {
        Ok(preview) => preview,
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            return Err(visitor.fail(problem));
        }
        Err(problem) => return Ok(refused(&visitor, BillingTab::Plans, &problem)),
    };
    let mut plans = plans.bundles.into_iter().map(|sold| sold.plan);
    let plan = plans.find(|plan| plan.plan_id == plan_id);
    let missing =
        || console_kit::service::ServiceProblem::missing("not_found", "This plan isn't sold.");
    let Some(plan) = plan else { return Err(visitor.fail(missing())) };
    let page = PlanChangePage {
        frame: visitor.shell(ConsoleSection::Billing),
        target: FormTarget::once(&visitor, path(&plan_id)),
        subscription,
        plan,
        preview,
    };
    Ok(show(&visitor, StatusCode::OK, &page))
}

/// The subscription after a change.
#[derive(serde::Deserialize)]
struct PlanChanged {
    #[serde(flatten)]
    subscription: Subscription,
    charged_cents: Option<i64>,
    credits_granted: Option<i64>,
}

async fn change(
    Path(plan_id): Path<String>,
    SentForm { visitor, data }: SentForm,
) -> Result<Response, PageFailure> {
    let body = json!({ "plan_id": plan_id });
    let about = ServiceRequest { idempotency_key: data.text("key"), ..ServiceRequest::default() };
    let sent = visitor.send(&Method::POST, "/v1/billing/subscription/plan", &body, &about).await;
    match sent.and_then(|response| response.json::<PlanChanged>()) {
        Ok(changed) => Ok(visitor.lead_to(PLANS, &said(&changed))),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => Err(visitor.fail(problem)),
        Err(problem) => Ok(refused(&visitor, BillingTab::Plans, &problem)),
    }
}

/// What the change did.
fn said(changed: &PlanChanged) -> FlashMessage {
    let has = &changed.subscription;
    if let Some(next) = has.pending() {
        let text = format!(
            "Your plan changes to {} on {}. Until then nothing changes.",
            next.name,
            has.period_end()
        );
        return FlashMessage::ok(text);
    }
    let cost = match changed.charged_cents {
        Some(0) => String::new(),
        Some(cents) => format!(" {} was charged.", format::dollars(cents)),
        None => " The payment isn't confirmed yet.".to_owned(),
    };
    let granted = changed.credits_granted.filter(|credits| *credits > 0);
    let granted = granted.map(|credits| format!(" {} were added.", format::credits(credits)));
    let granted = granted.unwrap_or_default();
    let text = format!("Your plan is {}.{cost}{granted}", has.name());
    FlashMessage::ok(text)
}
