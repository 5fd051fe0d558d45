//! Changing how many extra slots there are, and moving one between platforms: what it costs, before
//! it is made.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use futures_util::future::join;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::part::{BillingTab, refused, show};
use crate::plans::PATH as PLANS;
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::SentForm;
use console_kit::form_target::FormTarget;
use console_kit::format;
use console_kit::page_query::PageQuery;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

const CHANGE_PATH: &str = "/console/billing/slots/change";
const SWITCH_PATH: &str = "/console/billing/slots/switch";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new()
        .route(CHANGE_PATH, get(preview_change).post(change))
        .route(SWITCH_PATH, get(preview_switch).post(switch))
}

/// The platform and the number of its extra slots.
#[derive(serde::Deserialize, serde::Serialize)]
struct ChangeQuery {
    #[serde(default)]
    platform: String,
    #[serde(default)]
    count: String,
}

/// `GET /v1/billing/slots/preview`.
#[derive(serde::Deserialize)]
struct ChangePreview {
    platform: String,
    count_before: i64,
    count: i64,
    charged_now_cents: i64,
    credited_cents: i64,
    period_end: Option<String>,
    holds_until: String,
}

impl ChangePreview {
    fn count(&self) -> String {
        format::counted(self.count, "extra slot")
    }

    fn count_before(&self) -> String {
        format::counted(self.count_before, "extra slot")
    }

    const fn is_same(&self) -> bool {
        self.count == self.count_before
    }

    const fn is_fewer(&self) -> bool {
        self.count < self.count_before
    }

    fn charged(&self) -> String {
        format::dollars(self.charged_now_cents)
    }

    /// What comes off the next invoice, if something does.
    fn credited(&self) -> Option<String> {
        (self.credited_cents > 0).then(|| format::dollars(self.credited_cents))
    }

    fn period_end(&self) -> String {
        self.period_end.as_deref().map(format::day).unwrap_or_default()
    }

    fn holds_until(&self) -> String {
        format::time(&self.holds_until)
    }
}

#[derive(Template)]
#[template(path = "console/billing/slot_change.html")]
struct ChangePage {
    frame: PageShell,
    preview: ChangePreview,
    /// What one slot costs a month, if it is known.
    price: Option<String>,
    /// What all extra slots of the platform cost a month afterwards.
    monthly: Option<String>,
    target: FormTarget,
}

async fn preview_change(
    PageQuery(query): PageQuery<ChangeQuery>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let wanted = serde_urlencoded::to_string(&query).unwrap_or_default();
    let wanted = format!("/v1/billing/slots/preview?{wanted}");
    let (preview, slots) = join(
        visitor.try_get::<ChangePreview>(&wanted),
        visitor.get::<PricedSlots>("/v1/billing/slots"),
    )
    .await;
    let cents = slots?.price(&query.platform);
    let preview = match preview {
        Ok(preview) => preview,
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            return Err(visitor.fail(problem));
        }
        Err(problem) => return Ok(refused(&visitor, BillingTab::Plans, &problem)),
    };
    let page = ChangePage {
        frame: visitor.shell(ConsoleSection::Billing),
        price: cents.map(format::dollars),
        monthly: cents.map(|cents| format::dollars(cents.saturating_mul(preview.count))),
        preview,
        target: FormTarget::once(&visitor, CHANGE_PATH),
    };
    Ok(show(&visitor, StatusCode::OK, &page))
}

/// The prices of `GET /v1/billing/slots`.
#[derive(serde::Deserialize)]
struct PricedSlots {
    slots: Vec<PricedSlot>,
}

#[derive(serde::Deserialize)]
struct PricedSlot {
    platform: String,
    price_cents: Option<i64>,
}

impl PricedSlots {
    fn price(&self, platform: &str) -> Option<i64> {
        self.slots.iter().find(|slot| slot.platform == platform)?.price_cents
    }
}

/// The platforms between which a slot is moved.
#[derive(serde::Deserialize, serde::Serialize)]
struct SwitchQuery {
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
}

/// `GET /v1/billing/slots/switch/preview`.
#[derive(serde::Deserialize)]
struct SwitchPreview {
    from: String,
    to: String,
    next_invoice_cents: i64,
    period_end: Option<String>,
    holds_until: String,
}

impl SwitchPreview {
    /// What the next invoice has more, or less.
    fn difference(&self) -> String {
        let amount = format::dollars(self.next_invoice_cents.saturating_abs());
        match self.next_invoice_cents {
            0 => "Nothing changes on your next invoice".to_owned(),
            cents if cents > 0 => format!("{amount} more on your next invoice"),
            _ => format!("{amount} less on your next invoice"),
        }
    }

    fn period_end(&self) -> String {
        self.period_end.as_deref().map(format::day).unwrap_or_default()
    }

    fn holds_until(&self) -> String {
        format::time(&self.holds_until)
    }
}

#[derive(Template)]
#[template(path = "console/billing/slot_switch.html")]
struct SwitchPage {
    frame: PageShell,
    preview: SwitchPreview,
    target: FormTarget,
}

async fn preview_switch(
    PageQuery(query): PageQuery<SwitchQuery>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let wanted = serde_urlencoded::to_string(&query).unwrap_or_default();
    let wanted = format!("/v1/billing/slots/switch/preview?{wanted}");
    let preview = match visitor.try_get::<SwitchPreview>(&wanted).await {
        Ok(preview) => preview,
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            return Err(visitor.fail(problem));
        }
        Err(problem) => return Ok(refused(&visitor, BillingTab::Plans, &problem)),
    };
    let page = SwitchPage {
        frame: visitor.shell(ConsoleSection::Billing),
        preview,
        target: FormTarget::once(&visitor, SWITCH_PATH),
    };
    Ok(show(&visitor, StatusCode::OK, &page))
}

/// What a change of slots cost.
#[derive(serde::Deserialize)]
struct SlotsChanged {
    charged_cents: Option<i64>,
}

async fn change(form: SentForm) -> Result<Response, PageFailure> {
    let (platform, count) = (form.data.text("platform"), form.data.text("count"));
    let number: Option<i64> = count.parse().ok();
    // What is no number is sent as it is, so that the service says what is wrong with it.
    let body = json!({
        "platform": platform,
        "count": number.map_or_else(|| Value::from(count), Value::from),
    });
    let done = format!("{platform} has {}.", format::counted(number.unwrap_or(0), "extra slot"));
    make(&form, &RequestedChange { route: "/v1/billing/slots", body: &body, done }).await
}

async fn switch(form: SentForm) -> Result<Response, PageFailure> {
    let (from, to) = (form.data.text("from"), form.data.text("to"));
    let body = json!({ "from": from, "to": to });
    let done = format!("One slot was moved from {from} to {to}.");
    make(&form, &RequestedChange { route: "/v1/billing/slots/switch", body: &body, done }).await
}

/// A change to send.
struct RequestedChange<'a> {
    route: &'static str,
    body: &'a Value,
    /// What it did, once it is made.
    done: String,
}

/// Sends the change.
async fn make(form: &SentForm, change: &RequestedChange<'_>) -> Result<Response, PageFailure> {
    let visitor = &form.visitor;
    let key = form.data.text("key");
    let about = ServiceRequest { idempotency_key: key, ..ServiceRequest::default() };
    let sent = visitor.send(&Method::POST, change.route, change.body, &about).await;
    match sent.and_then(|response| response.json::<SlotsChanged>()) {
        Ok(changed) => Ok(visitor.lead_to(PLANS, &FlashMessage::ok(said(&changed, &change.done)))),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => Err(visitor.fail(problem)),
        Err(problem) => Ok(refused(visitor, BillingTab::Plans, &problem)),
    }
}

fn said(changed: &SlotsChanged, done: &str) -> String {
    match changed.charged_cents {
        Some(cents) if cents > 0 => format!("{done} {} was charged.", format::dollars(cents)),
        Some(_) => done.to_owned(),
        None => format!("{done} The payment isn't confirmed yet."),
    }
}
