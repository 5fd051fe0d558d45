//! `/console/billing/usage`: what was spent, by account, key, route or tag, and as CSV.

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use domain::breakdown::BreakdownBy;
use futures_util::StreamExt as _;
use futures_util::future::join;
use futures_util::stream;
use http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};

use crate::part::{BillingPart, BillingTab, ROWS, show};
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView};
use console_kit::format;
use console_kit::page_query::PageQuery;
use console_kit::service::{self, ServiceProblem, ServiceResponse};
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;

const PATH: &str = "/console/billing/usage";
const CSV_PATH: &str = "/console/billing/usage.csv";
/// Entries of one request for the file: the most that there are.
const CSV_ENTRIES: u32 = 1_000;

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show_usage)).route(CSV_PATH, get(download))
}

/// Which spending to show. Empty values are the same as none.
#[derive(serde::Deserialize, Default)]
struct UsageQuery {
    #[serde(default)]
    by: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    before: String,
}

impl UsageQuery {
    /// What it is grouped by; accounts unless it names something else.
    fn by(&self) -> BreakdownBy {
        self.by.parse().unwrap_or(BreakdownBy::Account)
    }

    /// The query with another grouping, from another place.
    fn written(&self, by: BreakdownBy, before: &str) -> String {
        let (from, to) = (self.from.trim(), self.to.trim());
        address::query(&[("by", by.as_str()), ("from", from), ("to", to), ("before", before)])
    }
}

/// `GET /v1/billing/usage/breakdown`.
#[derive(serde::Deserialize)]
struct SpendBreakdown {
    from: String,
    to: String,
    entries: Vec<BreakdownEntry>,
    total: SpendCounts,
    next_before: Option<String>,
}

#[derive(serde::Deserialize)]
struct BreakdownEntry {
    name: Option<String>,
    platform: Option<String>,
    #[serde(flatten)]
    counts: SpendCounts,
}

#[derive(serde::Deserialize)]
struct SpendCounts {
    calls: i64,
    exports: i64,
    credits: i64,
    errors: i64,
}

impl SpendCounts {
    fn calls(&self) -> String {
        format::number(self.calls)
    }

    fn exports(&self) -> String {
        format::number(self.exports)
    }

    fn credits(&self) -> String {
        format::number(self.credits)
    }

    fn errors(&self) -> String {
        format::number(self.errors)
    }
}

impl BreakdownEntry {
    /// Its share of the total, in percent.
    fn share(&self, total: &SpendCounts) -> i64 {
        self.counts.credits.saturating_mul(100) / total.credits.max(1)
    }
}

/// The names of keys, by id.
#[derive(serde::Deserialize, Default)]
struct KeyNames {
    keys: Vec<NamedKey>,
}

#[derive(serde::Deserialize)]
struct NamedKey {
    key_id: String,
    name: String,
}

#[derive(Template)]
#[template(path = "console/billing/usage.html")]
struct UsagePage {
    frame: PageShell,
    part: BillingPart,
    form: FormView,
    by: BreakdownBy,
    query: UsageQuery,
    breakdown: SpendBreakdown,
    keys: KeyNames,
}

impl UsagePage {
    /// The ways to group: address, word, and whether it is this one.
    fn ways(&self) -> impl Iterator<Item = (String, &'static str, bool)> {
        let all = [
            (BreakdownBy::Account, "Account"),
            (BreakdownBy::Key, "Key"),
            (BreakdownBy::Route, "Route"),
            (BreakdownBy::Tag, "Tag"),
        ];
        all.into_iter().map(|(by, word)| {
            (format!("{PATH}{}", self.query.written(by, "")), word, by == self.by)
        })
    }

    fn by_word(&self) -> &'static str {
        match self.by {
            BreakdownBy::Account => "Account",
            BreakdownBy::Key => "Key",
            BreakdownBy::Route => "Route",
            BreakdownBy::Tag => "Tag",
        }
    }

    /// What an entry is called: a key by its name.
    fn name<'a>(&'a self, entry: &'a BreakdownEntry) -> &'a str {
        let name = entry.name.as_deref().unwrap_or("No tag");
        let known = self.keys.keys.iter().find(|key| key.key_id == name);
        known.map_or(name, |key| key.name.as_str())
    }

    fn csv(&self) -> String {
        format!("{CSV_PATH}{}", self.query.written(self.by, ""))
    }

    /// The link to what cost less, if there is more.
    fn older(&self) -> Option<String> {
        let before = self.breakdown.next_before.as_ref()?;
        Some(format!("{PATH}{}", self.query.written(self.by, before)))
    }

    /// The link to the first page, on another one.
    fn first(&self) -> Option<String> {
        let is_later = !self.query.before.is_empty();
        is_later.then(|| format!("{PATH}{}", self.query.written(self.by, "")))
    }

    fn days(&self) -> String {
        let (from, to) = (&self.breakdown.from, &self.breakdown.to);
        format!("{} to {}", format::short_day(from), format::short_day(to))
    }
}

async fn show_usage(
    PageQuery(query): PageQuery<UsageQuery>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let by = query.by();
    let route = |asked: String| format!("/v1/billing/usage/breakdown{asked}&limit={ROWS}");
    let path = route(query.written(by, &query.before));
    let (found, keys) = join(visitor.try_get::<SpendBreakdown>(&path), names(&visitor, by)).await;
    let sent = FormData::default().with("from", query.from.trim()).with("to", query.to.trim());
    let (status, form, breakdown) = match found {
        Ok(breakdown) => (StatusCode::OK, FormView::filled(sent), breakdown),
        // A wrong day: the field says so, and the usual days are shown.
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {
            let usual = UsageQuery::default();
            let breakdown = visitor.get(&route(usual.written(by, ""))).await?;
            (problem.status, FormView::refused(sent, &problem, &[]), breakdown)
        }
        Err(problem) => return Err(visitor.fail(problem)),
    };
    let page = UsagePage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(&visitor, BillingTab::Usage),
        form,
        by,
        query,
        breakdown,
        keys,
    };
    Ok(show(&visitor, status, &page))
}

/// The names of keys, where entries are keys. Without them their ids are shown.
async fn names(visitor: &ConsoleVisitor, by: BreakdownBy) -> KeyNames {
    if by != BreakdownBy::Key {
        return KeyNames::default();
    }
    visitor.try_get("/v1/auth/keys").await.unwrap_or_default()
}

/// All entries as a file, page by page. If a page cannot be read, the connection is cut, so that
/// the browser does not take what it has for the whole file.
async fn download(
    PageQuery(query): PageQuery<UsageQuery>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let name = format!("attachment; filename=\"usage-by-{}.csv\"", query.by().as_str());
    let first = csv_page(&visitor, &query, "").await.map_err(|problem| visitor.fail(problem))?;
    let unread = UnreadPages { next: next_before(&first), visitor, query };
    let rest = stream::try_unfold(unread, UnreadPages::read_one);
    let headers = [(CONTENT_TYPE, "text/csv; charset=utf-8"), (CONTENT_DISPOSITION, name.as_str())];
    let lines = stream::iter([Ok(first.body)]).chain(rest);
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// The pages of the file that were not read yet.
struct UnreadPages {
    visitor: ConsoleVisitor,
    query: UsageQuery,
    /// Where the next one begins; none after the last one.
    next: Option<String>,
}

impl UnreadPages {
    /// The lines of the next page, and what is left then.
    async fn read_one(mut self) -> Result<Option<(Bytes, Self)>, std::io::Error> {
        let Some(before) = self.next.take() else { return Ok(None) };
        let page = csv_page(&self.visitor, &self.query, &before).await.map_err(|problem| {
            std::io::Error::other(format!("the rest cannot be read: {}", problem.code))
        })?;
        self.next = next_before(&page);
        Ok(Some((without_names(&page.body), self)))
    }
}

/// One page of the entries.
async fn csv_page(
    visitor: &ConsoleVisitor,
    query: &UsageQuery,
    before: &str,
) -> Result<ServiceResponse, ServiceProblem> {
    let written = query.written(query.by(), before);
    let path = format!("/v1/billing/usage/breakdown{written}&limit={CSV_ENTRIES}");
    let mut request = service::request(&Method::GET, &path, Body::empty());
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/csv"));
    ServiceResponse::read(visitor.relay(request, None).await?).await.done()
}

/// Where the next page begins; none after the last one.
fn next_before(page: &ServiceResponse) -> Option<String> {
    page.headers.get("x-next-before").and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The lines after the first one, which has the names of the columns.
fn without_names(page: &Bytes) -> Bytes {
    let end = page.iter().position(|byte| *byte == b'\n').map_or(page.len(), |end| end + 1);
    page.slice(end..)
}
