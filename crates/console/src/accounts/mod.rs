//! `/console/accounts`: connected accounts with their state, the slots of each platform, and the
//! forms that connect, switch and disconnect.

mod change;
mod connect;
pub(crate) mod view;

pub(crate) use view::{AccountList, ShownAccount};

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::future::{join, try_join};
use serde::Deserialize;

use connect::ConnectForm;
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView};
use console_kit::page_query::PageQuery;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;
use view::{PlatformList, PlatformSlots, SlotList};

/// The page's own path.
pub(crate) const PATH: &str = "/console/accounts";
/// Accounts on one page.
const PAGE_ACCOUNTS: usize = 40;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route(PATH, get(show))
        .route(connect::PATH, post(connect::connect))
        .merge(change::router())
}

/// What the page's address says.
#[derive(Deserialize, Default)]
struct AccountsQuery {
    /// The account whose credentials are replaced.
    connect: Option<String>,
    /// The platform of a new account.
    platform: Option<String>,
    /// The last account of the page before.
    before: Option<String>,
}

/// An account with the token of its switch.
struct AccountRow {
    account: ShownAccount,
    switch_path: String,
    token: String,
}

#[derive(Template)]
#[template(path = "console/accounts/list.html")]
struct AccountsPage {
    frame: PageShell,
    troubles: Vec<(String, String)>,
    /// Those whose credentials were refused, at most three.
    refused: Vec<ShownAccount>,
    slots: Vec<PlatformSlots>,
    /// Whether the slots could not be read.
    has_no_slots: bool,
    rows: Vec<AccountRow>,
    next: String,
    is_later: bool,
    connect: ConnectForm,
}

async fn show(
    visitor: ConsoleVisitor,
    PageQuery(query): PageQuery<AccountsQuery>,
) -> Result<Response, PageFailure> {
    let data = FormData::default()
        .with("creator_id", query.connect.as_deref().unwrap_or_default())
        .with("platform", query.platform.as_deref().unwrap_or_default());
    page(&visitor, &query.before.unwrap_or_default(), FormView::filled(data)).await
}

/// The page with the form that connects. If the form names a connected account, it is the form that
/// replaces its credentials.
async fn page(
    visitor: &ConsoleVisitor,
    before: &str,
    form: FormView,
) -> Result<Response, PageFailure> {
    let limit = PAGE_ACCOUNTS.to_string();
    let accounts =
        format!("/v1/accounts{}", address::query(&[("limit", &limit), ("before", before)]));
    let required = try_join(
        visitor.get::<AccountList>(&accounts),
        visitor.get::<PlatformList>("/v1/platforms"),
    );
    let (required, slots) = join(required, visitor.try_get::<SlotList>("/v1/billing/slots")).await;
    let (list, PlatformList { platforms }) = required?;
    let known = connect::known(visitor, &list, &form).await;
    let status = form.status();
    let troubles = platforms.iter().filter_map(view::PlatformInfo::trouble).collect();
    let needy = list.accounts.iter().filter(|account| account.needs_credentials());
    let has_no_slots = slots.is_err();
    let slots = slots.map(|found| found.slots).unwrap_or_default();
    let offered = |one: &PlatformSlots| {
        platforms.iter().any(|platform| platform.offered && platform.platform == one.platform)
    };
    let page = AccountsPage {
        frame: visitor.shell(ConsoleSection::Accounts),
        troubles,
        refused: needy.take(3).cloned().collect(),
        slots: slots.into_iter().filter(offered).collect(),
        has_no_slots,
        next: list.next_before.clone().unwrap_or_default(),
        is_later: !before.is_empty(),
        rows: list.accounts.into_iter().map(|account| row(visitor, account)).collect(),
        connect: ConnectForm::new(visitor, platforms, known, form),
    };
    Ok(visitor.show(status, &page))
}

fn row(visitor: &ConsoleVisitor, account: ShownAccount) -> AccountRow {
    let switch_path = format!("{PATH}/{}/switch", account.creator_id);
    AccountRow { token: visitor.token(&switch_path), switch_path, account }
}
