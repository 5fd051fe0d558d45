//! `/console/explorer`: the routes of an account's platform, a form for each, and what a call
//! returned. Calls sent here are calls of the API: they cost what they cost there, and a key of the
//! customer's pays.

mod reply;
mod routes;
mod send;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use futures_util::future::try_join;
use http::StatusCode;
use serde::Deserialize;

use crate::accounts::{AccountList, ShownAccount};
use crate::examples::CodeExample;
use crate::keys::view::KeyList;
use crate::paying_keys::{self, KeyNeeds};
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::form::{FormView, SentForm};
use console_kit::page_query::PageQuery;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;
use reply::CallReply;
use routes::{PlatformRoute, RouteGroup, RouteList};

/// The page's own path.
const PATH: &str = "/console/explorer";
/// Routes on one page of the list.
const LISTED_MAX: &str = "100";

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show).post(send))
}

/// What the page's address says.
#[derive(Deserialize, Default)]
struct ExplorerQuery {
    account: Option<String>,
    /// The route, such as `GET users/me`.
    route: Option<String>,
    /// Text that routes are searched for.
    q: Option<String>,
    /// The last route of the page before.
    before: Option<String>,
}

/// What the page is about.
struct RouteSelection {
    account: String,
    route: String,
    q: String,
    before: String,
}

#[derive(Template)]
#[template(path = "console/explorer/page.html")]
struct ExplorerPage {
    frame: PageShell,
    selection: RouteSelection,
    accounts: Vec<ShownAccount>,
    platform: String,
    groups: Vec<RouteGroup>,
    count: usize,
    next: String,
    route: Option<PlatformRoute>,
    keys: Vec<(String, String)>,
    form: FormView,
    code: Option<CodeExample>,
    /// How a file is uploaded; empty for other routes.
    upload: String,
    reply: Option<CallReply>,
    token: String,
    key: String,
}

/// A form and what came of it.
struct CallAttempt {
    form: FormView,
    reply: Option<CallReply>,
}

async fn show(
    visitor: ConsoleVisitor,
    PageQuery(query): PageQuery<ExplorerQuery>,
) -> Result<Response, PageFailure> {
    let selection = RouteSelection {
        account: query.account.unwrap_or_default(),
        route: query.route.unwrap_or_default(),
        q: query.q.unwrap_or_default(),
        before: query.before.unwrap_or_default(),
    };
    let desk = ExplorerDesk::read(&visitor, &selection).await?;
    let attempt = CallAttempt { form: FormView::default(), reply: None };
    Ok(desk.show(&visitor, selection, attempt))
}

async fn send(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let text = |name: &str| data.text(name).to_owned();
    let selection = RouteSelection {
        account: text("account"),
        route: text("route"),
        q: text("q"),
        before: text("before"),
    };
    let desk = ExplorerDesk::read(&visitor, &selection).await?;
    let attempt = match &desk.route {
        Some(route) if !route.is_upload() => send::send(&visitor, route, data).await?,
        _ => CallAttempt { form: FormView::default(), reply: None },
    };
    Ok(desk.show(&visitor, selection, attempt))
}

/// What the page shows beside a call: accounts, keys, routes.
struct ExplorerDesk {
    accounts: Vec<ShownAccount>,
    account: Option<ShownAccount>,
    keys: KeyList,
    list: RouteList,
    route: Option<PlatformRoute>,
}

impl ExplorerDesk {
    async fn read(
        visitor: &ConsoleVisitor,
        selection: &RouteSelection,
    ) -> Result<Self, PageFailure> {
        let (AccountList { accounts, .. }, keys) = try_join(
            visitor.get::<AccountList>("/v1/accounts"),
            visitor.get::<KeyList>(crate::keys::ROUTE),
        )
        .await?;
        let is_chosen = |one: &&ShownAccount| one.creator_id == selection.account;
        let account = accounts.iter().find(is_chosen).or(accounts.first()).cloned();
        let Some(platform) = account.as_ref().map(|account| account.platform.clone()) else {
            let list = RouteList { routes: Vec::new(), next_before: None };
            return Ok(Self { accounts, account, keys, list, route: None });
        };
        let page = [
            ("limit", LISTED_MAX),
            ("search", selection.q.as_str()),
            ("before", selection.before.as_str()),
        ];
        let list = listed(visitor, &platform, &page);
        let one = chosen_route(visitor, &platform, &selection.route);
        let (list, route) = try_join(list, one).await?;
        let is_open = selection.route.is_empty();
        let route = route.or_else(|| list.routes.first().filter(|_| is_open).cloned());
        Ok(Self { accounts, account, keys, list, route })
    }

    fn show(
        self,
        visitor: &ConsoleVisitor,
        selection: RouteSelection,
        attempt: CallAttempt,
    ) -> Response {
        let Self { accounts, account, keys, list, route } = self;
        let account_name =
            account.as_ref().map(|account| account.creator_id.clone()).unwrap_or_default();
        let is_write = route.as_ref().is_some_and(PlatformRoute::is_write);
        let needs = KeyNeeds { account: &account_name, is_write };
        let keys = paying_keys::choices(&keys.keys, needs, visitor.now());
        let native = route.as_ref().filter(|one| !one.is_upload());
        let base = visitor.base_url();
        let code = native.map(|one| send::example(&base, &account_name, one, &attempt.form));
        let is_upload = route.as_ref().is_some_and(PlatformRoute::is_upload);
        let CallAttempt { form, reply } = attempt;
        let mut frame = visitor.shell(ConsoleSection::Explorer);
        let balance = reply.as_ref().map(|reply| reply.receipt.balance.clone());
        if let Some(balance) = balance.filter(|balance| !balance.is_empty()) {
            frame.credits = balance;
        }
        let status = if reply.is_some() { StatusCode::OK } else { form.status() };
        let page = ExplorerPage {
            frame,
            upload: if is_upload { send::upload(&base, &account_name) } else { String::new() },
            selection: RouteSelection { account: account_name, ..selection },
            platform: account.map(|account| account.platform).unwrap_or_default(),
            accounts,
            count: list.routes.len(),
            groups: routes::grouped(list.routes),
            next: list.next_before.unwrap_or_default(),
            route,
            keys,
            form,
            code,
            reply,
            token: visitor.token(PATH),
            key: visitor.new_idempotency_key(),
        };
        visitor.show(status, &page)
    }
}

async fn routes_of(
    visitor: &ConsoleVisitor,
    platform: &str,
    query: &[(&str, &str)],
) -> Result<RouteList, PageFailure> {
    let platform = address::segment(platform);
    visitor.get(&format!("/v1/platforms/{platform}/routes{}", address::query(query))).await
}

/// A page of the list. What an edited address says of it may be wrong; then the list begins anew.
async fn listed(
    visitor: &ConsoleVisitor,
    platform: &str,
    query: &[(&str, &str)],
) -> Result<RouteList, PageFailure> {
    let route = format!("/v1/platforms/{}/routes", address::segment(platform));
    match visitor.try_get(&format!("{route}{}", address::query(query))).await {
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {
            routes_of(visitor, platform, &[("limit", LISTED_MAX)]).await
        }
        read => read.map_err(|problem| visitor.fail(problem)),
    }
}

/// The route that the address names; none if it names none of the platform's.
async fn chosen_route(
    visitor: &ConsoleVisitor,
    platform: &str,
    name: &str,
) -> Result<Option<PlatformRoute>, PageFailure> {
    let Some((method, path)) = name.split_once(' ') else { return Ok(None) };
    let query = [("limit", "500"), ("method", method), ("search", path)];
    let is_method = ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method);
    if !is_method || path.len() > 200 {
        return Ok(None);
    }
    let found = routes_of(visitor, platform, &query).await?;
    Ok(found.routes.into_iter().find(|route| route.method == method && route.path == path))
}

impl ExplorerPage {
    /// The address of a route in the list.
    fn link(&self, route: &PlatformRoute) -> String {
        let RouteSelection { account, q, before, .. } = &self.selection;
        let name = route.name();
        let pairs = [("account", account.as_str()), ("route", &name), ("q", q), ("before", before)];
        format!("{PATH}{}", address::query(&pairs))
    }

    fn is_shown(&self, route: &PlatformRoute) -> bool {
        self.route.as_ref().is_some_and(|shown| shown.name() == route.name())
    }

    /// The address of the next page of the list.
    fn next_page(&self) -> String {
        let RouteSelection { account, route, q, .. } = &self.selection;
        let pairs =
            [("account", account.as_str()), ("route", route), ("q", q), ("before", &self.next)];
        format!("{PATH}{}", address::query(&pairs))
    }

    /// The address of the first page of the list.
    fn first_page(&self) -> String {
        let RouteSelection { account, route, q, .. } = &self.selection;
        format!(
            "{PATH}{}",
            address::query(&[("account", account.as_str()), ("route", route), ("q", q)])
        )
    }
}
