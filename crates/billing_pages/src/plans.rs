//! `/console/billing/plans`: the plan, the plans for sale, and the slots of each platform.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::future::try_join3;
use http::{Method, StatusCode};
use serde_json::json;

use crate::model::{
    PlanList, PlanOffer, ProcessorPage, SlotList, SlotState, SoldPlan, Subscription,
};
use crate::part::{BillingPart, BillingTab, refused, show};
use crate::plan_change;
use crate::processor;
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::form::SentForm;
use console_kit::form_target::FormTarget;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

/// The page.
pub(crate) const PATH: &str = "/console/billing/plans";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new()
        .route(PATH, get(show_plans))
        .route("/console/billing/plans/{plan_id}/subscribe", post(subscribe))
}

#[derive(Template)]
#[template(path = "console/billing/plans.html")]
struct PlansPage {
    frame: PageShell,
    part: BillingPart,
    subscription: Subscription,
    plans: Vec<OfferedPlan>,
    slots: SlotList,
    /// Withdraws a pending change, by choosing the paid plan again.
    undo: Option<FormTarget>,
}

/// A plan for sale, with the button for it.
struct OfferedPlan {
    plan: PlanOffer,
    /// The page that previews a change to it.
    path: String,
    /// Opens the checkout; none with a plan, which is changed instead.
    subscribe: Option<FormTarget>,
    is_current: bool,
    is_next: bool,
    /// Whether it can be bought at the moment.
    is_available: bool,
}

impl PlansPage {
    /// Platforms on which extra slots are sold.
    fn sold(&self) -> impl Iterator<Item = &SlotState> {
        self.slots.slots.iter().filter(|slot| slot.price().is_some())
    }

    /// The platform that is chosen at first to take a slot: one without any, else another than the
    /// first that has some.
    fn switch_target(&self) -> &str {
        let from = self.sold().find(|slot| slot.count > 0).map(|slot| slot.platform.as_str());
        let others = || self.sold().filter(move |slot| Some(slot.platform.as_str()) != from);
        let target = others().find(|slot| slot.count == 0).or_else(|| others().next());
        target.map_or("", |slot| slot.platform.as_str())
    }

    /// Whether a slot could be moved: one is there, and another platform takes it.
    fn can_switch(&self) -> bool {
        self.sold().count() > 1 && self.sold().any(|slot| slot.count > 0)
    }
}

async fn show_plans(visitor: ConsoleVisitor) -> Result<Response, PageFailure> {
    let (subscription, plans, slots) = try_join3(
        visitor.get::<Subscription>("/v1/billing/subscription"),
        visitor.get::<PlanList>("/v1/billing/subscriptions/plans"),
        visitor.get::<SlotList>("/v1/billing/slots"),
    )
    .await?;
    let undo = subscription.pending().and(subscription.plan.as_ref());
    let page = PlansPage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(&visitor, BillingTab::Plans),
        undo: undo.map(|plan| FormTarget::once(&visitor, plan_change::path(&plan.plan_id))),
        plans: plans
            .bundles
            .into_iter()
            .map(|plan| OfferedPlan::new(&visitor, plan, &subscription))
            .collect(),
        slots,
        subscription,
    };
    Ok(show(&visitor, StatusCode::OK, &page))
}

impl OfferedPlan {
    fn new(visitor: &ConsoleVisitor, sold: SoldPlan, has: &Subscription) -> Self {
        let SoldPlan { plan, available } = sold;
        let is = |other: Option<&PlanOffer>| other.is_some_and(|one| one.plan_id == plan.plan_id);
        let path = plan_change::path(&plan.plan_id);
        let buy = format!("{path}/subscribe");
        Self {
            is_available: available,
            path,
            is_current: has.is_live() && is(has.plan.as_ref()),
            is_next: has.is_live() && is(has.pending()),
            subscribe: (!has.is_live()).then(|| FormTarget::new(visitor, buy)),
            plan,
        }
    }
}

/// Opens the processor's page for buying a plan.
async fn subscribe(
    Path(plan_id): Path<String>,
    SentForm { visitor, .. }: SentForm,
) -> Result<Response, PageFailure> {
    let body = json!({ "plan_id": plan_id });
    let about = ServiceRequest::default();
    let sent = visitor.send(&Method::POST, "/v1/billing/subscribe", &body, &about).await;
    match sent.and_then(|response| response.json::<ProcessorPage>()) {
        Ok(page) => Ok(processor::lead_out(&visitor, &page.url)),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => Err(visitor.fail(problem)),
        Err(problem) => Ok(refused(&visitor, BillingTab::Plans, &problem)),
    }
}
