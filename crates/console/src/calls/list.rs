//! `/console/calls`: the call log. Its filters are in the address, so that a copied address shows
//! the same view.

use askama::Template;
use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::view::{CallList, ShownCall};
use crate::accounts::AccountList;
use crate::keys::view::KeyList;
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView};
use console_kit::format;
use console_kit::page_query::PageFilters;
use console_kit::service::ServiceProblem;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::values;
use console_kit::visitor::ConsoleVisitor;

const PATH: &str = "/console/calls";
/// The calls of a page.
const LIMIT: &str = "50";
/// The most accounts and keys that are offered for choice. With more accounts, the name is typed.
const CHOICES_MAX: usize = 100;
/// How calls can have ended: the value in the address and its word.
const STATUSES: &[(&str, &str)] = &[
    ("", "All"),
    ("ok", "OK"),
    ("error", "Errors"),
    ("2xx", "2xx"),
    ("3xx", "3xx"),
    ("4xx", "4xx"),
    ("5xx", "5xx"),
];
/// The filters of the page, and the parameters of the API that they are.
const FILTERS: &[(&str, &str)] = &[
    ("status", "status_class"),
    ("account", "account"),
    ("key", "key_id"),
    ("route", "route"),
    ("tag", "tag"),
];
/// The parameters whose problems are shown at fields with other names.
const RENAMED: &[(&str, &str)] = &[("status_class", "status"), ("key_id", "key")];

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show))
}

/// A link to the same calls that ended in one way.
struct StatusLink {
    path: String,
    word: &'static str,
    is_current: bool,
}

#[derive(Template)]
#[template(path = "console/calls/list.html")]
struct CallsPage {
    frame: PageShell,
    form: FormView,
    status: String,
    statuses: Vec<StatusLink>,
    /// The names of the accounts; none if there are too many to choose from.
    accounts: Vec<String>,
    /// The ids and names of the keys.
    keys: Vec<(String, String)>,
    /// The time in the field.
    before: String,
    /// For how long calls are kept one by one; empty if for ever.
    kept_for: String,
    list: Vec<ShownCall>,
    is_filtered: bool,
    /// What the page covers.
    range: String,
    newest: String,
    older: String,
    /// The time back to which calls were searched, if there may be older ones.
    searched_to: String,
}

async fn show(
    visitor: ConsoleVisitor,
    PageFilters(filters): PageFilters,
) -> Result<Response, PageFailure> {
    if let Some(id) = filters.optional("id") {
        return Ok(find(&visitor, &filters, id).await?.into_response());
    }
    page(&visitor, filters, None).await
}

/// Leads from an id to its call, or says that there is none.
async fn find(
    visitor: &ConsoleVisitor,
    filters: &FormData,
    id: &str,
) -> Result<Response, PageFailure> {
    let path = format!("/v1/billing/usage/calls/{}", address::segment(id));
    match visitor.try_get::<ShownCall>(&path).await {
        Ok(call) => Ok(Redirect::to(&call.page()).into_response()),
        Err(problem) if problem.status == http::StatusCode::NOT_FOUND => {
            let unknown = "There’s no such call, it isn’t yours, or it’s older than the log.";
            page(visitor, filters.clone(), Some(unknown)).await
        }
        Err(problem) => Err(visitor.fail(problem)),
    }
}

/// The page with its list. What is wrong with a filter stands at its field, and the list is shown
/// without filters.
async fn page(
    visitor: &ConsoleVisitor,
    filters: FormData,
    unknown_id: Option<&str>,
) -> Result<Response, PageFailure> {
    let path = route(&filters);
    let read = visitor.try_get::<CallList>(&path);
    let accounts = visitor.try_get::<AccountList>("/v1/accounts");
    let keys = visitor.try_get::<KeyList>("/v1/auth/keys");
    let (read, accounts, keys) = futures_util::join!(read, accounts, keys);
    let (list, mut form) = match read {
        Ok(list) => (list, FormView::filled(filters.clone())),
        Err(problem) => (unfiltered(visitor, &problem).await?, refused(&filters, &problem)),
    };
    if let Some(unknown) = unknown_id {
        form = form.mark("id", unknown);
    }
    let mut names = accounts.map(AccountList::names).unwrap_or_default();
    if names.len() > CHOICES_MAX {
        names.clear();
    }
    // An account that is gone may still have calls.
    let chosen = filters.text("account").to_owned();
    if !names.is_empty() && !chosen.is_empty() && !names.contains(&chosen) {
        names.push(chosen);
    }
    let status = form.status();
    let shown = CallsPage {
        frame: visitor.shell(ConsoleSection::Calls),
        form,
        status: filters.text("status").to_owned(),
        statuses: STATUSES.iter().map(|of| status_link(&filters, of)).collect(),
        accounts: names,
        keys: keys.map(|keys| key_choices(&keys)).unwrap_or_default(),
        before: shown_time(filters.text("before")),
        kept_for: kept_for(visitor),
        is_filtered: is_filtered(&filters),
        range: range(&list.calls),
        newest: if filters.text("before").is_empty() { String::new() } else { link(&filters, "") },
        older: list.next_before.as_ref().map(|at| link(&filters, at.get())).unwrap_or_default(),
        searched_to: list.next_before.as_ref().map(|at| moment(at.get())).unwrap_or_default(),
        list: list.calls,
    };
    Ok(visitor.show(status, &shown))
}

/// The ids and labels of the keys, to choose from.
fn key_choices(list: &KeyList) -> Vec<(String, String)> {
    list.keys.iter().take(CHOICES_MAX).map(|key| (key.id.clone(), key.label())).collect()
}

/// The list without filters, if a filter is wrong; every other problem is that of the page.
async fn unfiltered(
    visitor: &ConsoleVisitor,
    problem: &ServiceProblem,
) -> Result<CallList, PageFailure> {
    let is_wrong_key = problem.status == http::StatusCode::NOT_FOUND;
    if problem.fields.is_empty() && !is_wrong_key {
        return Err(visitor.fail(problem.clone()));
    }
    visitor.get(&route(&FormData::default())).await
}

fn refused(filters: &FormData, problem: &ServiceProblem) -> FormView {
    if problem.fields.is_empty() {
        return FormView::filled(filters.clone()).mark("key", "You have no such key.");
    }
    FormView::refused(filters.clone(), problem, RENAMED)
}

/// The route of the API with these filters.
fn route(filters: &FormData) -> String {
    let before = instant(filters.text("before"));
    let mut pairs = vec![("limit", LIMIT), ("before", before.as_str())];
    pairs.extend(FILTERS.iter().map(|(name, parameter)| (*parameter, filters.text(name))));
    format!("/v1/billing/usage/recent{}", address::query(&pairs))
}

/// The page with these filters, before this time.
fn link(filters: &FormData, before: &str) -> String {
    let mut pairs: Vec<_> = FILTERS.iter().map(|(name, _)| (*name, filters.text(name))).collect();
    pairs.push(("before", before));
    format!("{PATH}{}", address::query(&pairs))
}

fn status_link(filters: &FormData, (value, word): &(&'static str, &'static str)) -> StatusLink {
    let path = link(&filters.clone().with("status", *value), "");
    StatusLink { path, word, is_current: filters.text("status") == *value }
}

fn is_filtered(filters: &FormData) -> bool {
    let names = FILTERS.iter().map(|(name, _)| *name).chain(["before", "id"]);
    names.into_iter().any(|name| !filters.text(name).is_empty())
}

/// The instant of a time that was typed, as the API takes it; a cursor stays as it is, and so does
/// what is neither, so that the API says what is wrong.
fn instant(text: &str) -> String {
    let time: Result<jiff::Timestamp, _> = values::time(text).parse();
    time.map_or_else(|_| text.to_owned(), |time| time.as_second().to_string())
}

/// A cursor as the field for the time shows it. Its fraction is left out.
fn shown_time(text: &str) -> String {
    let seconds: Option<i64> = text.split('.').next().and_then(|whole| whole.parse().ok());
    let at = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    at.map_or_else(
        || text.to_owned(),
        |at| at.to_zoned(jiff::tz::TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S").to_string(),
    )
}

/// A cursor as a date and a time.
fn moment(cursor: &str) -> String {
    format::moment(&format!("{}Z", shown_time(cursor)))
}

/// How long calls are kept one by one.
fn kept_for(visitor: &ConsoleVisitor) -> String {
    match visitor.config().retention.calls_days {
        0 => String::new(),
        days => {
            let kept = format::counted(days, "day");
            format!("Calls are kept for {kept}; older ones only as daily totals.")
        }
    }
}

/// `13 calls, 22 Nov 2026, 11:27:49 to 22 Nov 2026, 11:27:36`.
fn range(calls: &[ShownCall]) -> String {
    let (Some(newest), Some(oldest)) = (calls.first(), calls.last()) else { return String::new() };
    let count = format::counted(i64::try_from(calls.len()).unwrap_or(i64::MAX), "call");
    if newest.moment() == oldest.moment() {
        return format!("{count}, {}", newest.moment());
    }
    format!("{count}, {} to {}", newest.moment(), oldest.moment())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_stay_in_the_address() {
        let filters = FormData::of_query("status=error&account=a&before=5&other=1&tag=");

        assert_eq!(
            link(&filters, "7.000010"),
            "/console/calls?status=error&account=a&before=7.000010"
        );
        assert_eq!(
            route(&filters),
            "/v1/billing/usage/recent?limit=50&before=5&status_class=error&account=a"
        );
        assert!(is_filtered(&filters) && !is_filtered(&FormData::of_query("tag=&x=1")));
    }

    #[test]
    fn times_that_were_typed_become_instants_and_cursors_stay_exact() {
        assert_eq!(instant("2026-11-21T12:00:00"), "1795262400");
        assert_eq!(instant("2026-11-21T12:00"), "1795262400");
        assert_eq!(instant("1795262400.000010"), "1795262400.000010");
        assert_eq!(instant("yesterday"), "yesterday");
        assert_eq!(shown_time("1795262400.000010"), "2026-11-21T12:00:00");
        assert_eq!(shown_time("2026-11-21T12:00"), "2026-11-21T12:00");
    }
}
