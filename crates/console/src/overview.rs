//! `/console`: what is left, what fails, what it cost.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use domain::time::Timestamp;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::accounts::view::PlatformList;
use crate::accounts::{AccountList, ShownAccount};
use crate::attention::{AttentionInput, AttentionItem, CardInfo, RecentExports};
use crate::calls::view::{CallList, ShownCall, verb_class};
use crate::chart::{CallChart, ChartDay, CreditChart};
use crate::examples::CodeExample;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::SentForm;
use console_kit::format;
use pages::plain::sentence;

use crate::tiles::OverviewTiles;
use crate::usage::{DailyUsage, HotFailure};
use console_kit::ConsoleState;
use console_kit::page_query::PageQuery;
use console_kit::service::ServiceProblem;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

/// The periods of the charts, in days.
const PERIODS: [i64; 3] = [7, 30, 90];
const PERIOD_DEFAULT: i64 = 30;
/// How long a failed export is worth attention.
const FAILED_FOR_S: i64 = 86_400;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route("/console", get(show)).route(RESEND_PATH, post(resend))
}

/// Where the form that requests another confirmation email is sent.
const RESEND_PATH: &str = "/console/email/resend";

/// The period of the charts.
#[derive(Deserialize)]
struct PeriodQuery {
    days: Option<String>,
}

/// The members of `GET /v1/billing` that the page shows.
#[derive(Deserialize)]
pub(crate) struct CreditTotals {
    pub(crate) balance: i64,
    pub(crate) held: i64,
    pub(crate) debt: i64,
    pub(crate) spend: CreditSums,
    pub(crate) next_expiring: Option<ExpiringCredits>,
    trial: TrialInfo,
    subscription: Option<PlanInfo>,
}

/// What was spent.
#[derive(Deserialize)]
pub(crate) struct CreditSums {
    pub(crate) today: i64,
    pub(crate) last_7_days: i64,
}

/// Credits that expire together.
#[derive(Deserialize)]
pub(crate) struct ExpiringCredits {
    credits: i64,
    expires_at: String,
}

#[derive(Deserialize)]
struct TrialInfo {
    state: String,
    credits: i64,
}

#[derive(Deserialize)]
struct PlanInfo {
    status: String,
}

/// A message at the top: title and text.
struct PageNotice {
    class: &'static str,
    title: String,
    text: String,
    path: &'static str,
    button: &'static str,
}

/// The charts of a period.
struct UsageCharts {
    days: Vec<ChartDay>,
    calls: CallChart,
    credits: CreditChart,
    spent: String,
}

/// The way to the first call.
struct FirstSteps {
    has_account: bool,
    /// How many of the three steps are done.
    done: usize,
    code: CodeExample,
}

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    frame: PageShell,
    period: i64,
    resend_token: String,
    /// Credits that confirming the address grants; 0 for none.
    trial_credits: i64,
    notices: Vec<PageNotice>,
    hot: Option<HotFailure>,
    tiles: OverviewTiles,
    first: Option<FirstSteps>,
    charts: Option<UsageCharts>,
    attention: Vec<AttentionItem>,
    /// The newest calls; none if they could not be read.
    latest: Option<Vec<ShownCall>>,
}

/// What the page reads. Everything but the credits may fail on its own.
struct OverviewData {
    credits: CreditTotals,
    usage: Option<DailyUsage>,
    latest: Option<Vec<ShownCall>>,
    accounts: Option<Vec<ShownAccount>>,
    platforms: Option<PlatformList>,
    card: Option<CardInfo>,
    exports: Option<RecentExports>,
}

impl OverviewData {
    async fn of(visitor: &ConsoleVisitor, period: i64) -> Result<Self, PageFailure> {
        let daily = format!("/v1/billing/usage/daily?days={period}");
        let (credits, usage, latest, accounts, platforms, card, exports) = futures_util::join!(
            visitor.get("/v1/billing"),
            visitor.try_get(&daily),
            visitor.try_get::<CallList>("/v1/billing/usage/recent?limit=6"),
            visitor.try_get::<AccountList>("/v1/accounts"),
            visitor.try_get("/v1/platforms"),
            visitor.try_get("/v1/billing/card"),
            visitor.try_get("/v1/exports?status=failed&limit=3"),
        );
        Ok(Self {
            credits: credits?,
            usage: usage.ok(),
            latest: latest.ok().map(|list| list.calls),
            accounts: accounts.ok().map(|list| list.accounts),
            platforms: platforms.ok(),
            card: card.ok(),
            exports: exports.ok(),
        })
    }
}

async fn show(
    visitor: ConsoleVisitor,
    PageQuery(query): PageQuery<PeriodQuery>,
) -> Result<Response, PageFailure> {
    let period = query.days.and_then(|days| days.parse().ok());
    let period = period.filter(|days| PERIODS.contains(days)).unwrap_or(PERIOD_DEFAULT);
    let read = OverviewData::of(&visitor, period).await?;
    let page = page(&visitor, period, read).await;
    Ok(visitor.show(StatusCode::OK, &page))
}

async fn page(visitor: &ConsoleVisitor, period: i64, read: OverviewData) -> OverviewPage {
    let now = visitor.now();
    let tiles = OverviewTiles::new(&read.credits, read.usage.as_ref());
    let is_unconfirmed = visitor.customer.email_verified_at.is_none();
    let is_trial_open = is_unconfirmed && read.credits.trial.state == "pending";
    OverviewPage {
        frame: visitor.shell(ConsoleSection::Overview),
        period,
        resend_token: visitor.token(RESEND_PATH),
        trial_credits: if is_trial_open { read.credits.trial.credits } else { 0 },
        notices: notices(&read),
        first: first_steps(visitor, &read).await,
        charts: read.usage.as_ref().map(|usage| charts(usage, now)),
        attention: attention(&read, &tiles, now),
        hot: read.usage.and_then(|usage| usage.hot_failure),
        latest: read.latest,
        tiles,
    }
}

/// What is wrong for the customer as a whole.
fn notices(read: &OverviewData) -> Vec<PageNotice> {
    let mut notices = Vec::new();
    let credits = &read.credits;
    if credits.debt > 0 {
        notices.push(PageNotice {
            class: "bad",
            title: format!("You owe {}", format::credits(credits.debt)),
            text: "A payment was refunded or disputed after its credits were spent. New credits pay this off first; until then calls are refused.".to_owned(),
            path: "/console/billing#buy",
            button: "Add credits",
        });
    } else if credits.balance <= 0 && credits.trial.state != "pending" {
        notices.push(PageNotice {
            class: "bad",
            title: "You’re out of credits".to_owned(),
            text: "Calls are refused. Add credits to continue; nothing else is affected."
                .to_owned(),
            path: "/console/billing#buy",
            button: "Add credits",
        });
    }
    let platforms = read.platforms.iter().flat_map(|list| &list.platforms);
    let used = |name: &str| read.accounts.iter().flatten().any(|account| account.platform == name);
    for platform in platforms.filter(|platform| used(&platform.platform)) {
        if let Some((title, text)) = platform.trouble() {
            notices.push(PageNotice {
                class: "warn",
                title,
                text,
                path: "/console/accounts",
                button: "View accounts",
            });
        }
    }
    notices
}

/// The three steps, until the first call.
async fn first_steps(visitor: &ConsoleVisitor, read: &OverviewData) -> Option<FirstSteps> {
    let is_new = read.latest.as_ref().is_some_and(Vec::is_empty)
        && read.usage.as_ref().is_some_and(|usage| !usage.has_calls());
    let accounts = read.accounts.as_ref()?;
    if !is_new {
        return None;
    }
    let account = accounts.first().map_or("NAME", |account| &account.creator_id);
    let path = match accounts.first() {
        Some(first) => first_path(visitor, &first.platform).await,
        None => FIRST_PATH.to_owned(),
    };
    Some(FirstSteps {
        has_account: !accounts.is_empty(),
        done: 1 + usize::from(!accounts.is_empty()),
        code: CodeExample {
            method: "GET".to_owned(),
            url: format!("{}/v1/{account}/native/{path}", visitor.base_url()),
            body: None,
            file: None,
        },
    })
}

/// The native path of a first call, on a platform of which nothing is known.
const FIRST_PATH: &str = "users/me";

/// The members of `GET /v1/platforms/{platform}/routes` that the first steps need.
#[derive(Deserialize)]
struct RouteList {
    routes: Vec<ListedRoute>,
}

#[derive(Deserialize)]
struct ListedRoute {
    path: String,
    query: Vec<RouteParameter>,
}

#[derive(Deserialize)]
struct RouteParameter {
    required: bool,
}

/// The native path of a first call that works: the route about the account itself, else one that
/// needs no parameter.
async fn first_path(visitor: &ConsoleVisitor, platform: &str) -> String {
    let asked = format!("/v1/platforms/{platform}/routes?method=GET&limit=500");
    let found = visitor.try_get::<RouteList>(&asked).await;
    let routes = found.map(|list| list.routes).unwrap_or_default();
    let plain = |route: &&ListedRoute| {
        !route.path.contains('{') && route.query.iter().all(|parameter| !parameter.required)
    };
    let is_own = |route: &&ListedRoute| route.path.rsplit('/').next() == Some("me");
    let own = routes.iter().filter(plain).find(is_own);
    let chosen = own.or_else(|| routes.iter().find(plain));
    chosen.map_or_else(|| FIRST_PATH.to_owned(), |route| route.path.clone())
}

fn charts(usage: &DailyUsage, now: Timestamp) -> UsageCharts {
    let days = usage.chart_days(now);
    UsageCharts {
        calls: CallChart::new(&days),
        credits: CreditChart::new(&days),
        spent: format::number(days.iter().map(|day| day.credits).sum()),
        days,
    }
}

fn attention(read: &OverviewData, tiles: &OverviewTiles, now: Timestamp) -> Vec<AttentionItem> {
    let input = AttentionInput {
        accounts: read.accounts.as_deref().unwrap_or_default(),
        top_up: read.card.as_ref().map(|card| &card.autotopup),
        exports: read.exports.as_ref().map_or(&[], |list| &list.exports),
        is_past_due: read
            .credits
            .subscription
            .as_ref()
            .is_some_and(|plan| plan.status == "past_due"),
        lasts_a_day: read.credits.balance > 0 && tiles.days_left == Some(0),
        since: now.plus_seconds(-FAILED_FOR_S).to_string(),
    };
    input.items()
}

/// Sends another email that confirms the address.
async fn resend(form: SentForm) -> Response {
    let visitor = form.visitor;
    let body = json!({ "email": visitor.customer.email.as_str() });
    let path = "/v1/auth/email/resend";
    let sent = visitor.send(&Method::POST, path, &body, &ServiceRequest::default()).await;
    let flash = match sent {
        Ok(_) => FlashMessage::ok(format!("We’ve sent a new link to {}.", visitor.customer.email)),
        Err(ServiceProblem { detail, .. }) => FlashMessage::bad(sentence(&detail)),
    };
    visitor.lead_to("/console", &flash)
}

impl ExpiringCredits {
    /// `500 expire on 3 Dec 2026`.
    pub(crate) fn words(&self) -> String {
        format!("{} expire on {}", format::number(self.credits), format::day(&self.expires_at))
    }
}

impl HotFailure {
    fn verb_class(&self) -> &'static str {
        verb_class(&self.method)
    }
}
