//! Pages of lists: the parameters `limit` and `before` of a request, and the
//! `next_before` of its response.

use domain::account::CreatorId;
use domain::breakdown::BreakdownCursor;
use domain::id::{AuditId, ExportId, OrderId};
use domain::invoice::InvoiceId;
use domain::ledger::LedgerLine;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value, json};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};

use crate::WebState;
use crate::fields::{FieldProblems, GoodFields, RequestQuery};

const LIMIT: &str = "limit";
const BEFORE: &str = "before";

/// What names an entry of a list, so that a page can begin after it.
pub trait PageCursor: DeserializeOwned + Clone + 'static {
    /// The entries of its list, for descriptions.
    const ENTRIES: &'static str;
    /// Its format (`fields`).
    const FORMAT: &'static str;
    /// The most entries of a page.
    const LIMIT_MAX: i64;
    /// The number of entries of a page for which no number is asked.
    const LIMIT_DEFAULT: i64 = 50;
    /// How the entries of the next page follow one, for descriptions.
    const FOLLOWING: &'static str = "older than";
}

impl PageCursor for AuditId {
    const ENTRIES: &'static str = "entries";
    const FORMAT: &'static str = "audit-id";
    const LIMIT_MAX: i64 = 500;
}

impl PageCursor for CreatorId {
    const ENTRIES: &'static str = "accounts";
    const FORMAT: &'static str = "creator-id";
    const LIMIT_MAX: i64 = 500;
    const LIMIT_DEFAULT: i64 = 500;
    const FOLLOWING: &'static str = "after";
}

impl PageCursor for ExportId {
    const ENTRIES: &'static str = "exports";
    const FORMAT: &'static str = "export-id";
    const LIMIT_MAX: i64 = 200;
}

impl PageCursor for InvoiceId {
    const ENTRIES: &'static str = "invoices";
    const FORMAT: &'static str = "line";
    const LIMIT_MAX: i64 = 100;
}

impl PageCursor for LedgerLine {
    const ENTRIES: &'static str = "lines";
    const FORMAT: &'static str = "ledger-line";
    const LIMIT_MAX: i64 = 500;
}

impl PageCursor for BreakdownCursor {
    const ENTRIES: &'static str = "entries";
    const FORMAT: &'static str = "breakdown-cursor";
    const LIMIT_MAX: i64 = 1_000;
    const FOLLOWING: &'static str = "after";
}

impl PageCursor for OrderId {
    const ENTRIES: &'static str = "orders";
    const FORMAT: &'static str = "order-id";
    const LIMIT_MAX: i64 = 500;
}

/// The page that a request wants.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields, bound = "C: PageCursor")]
pub struct PageQuery<C> {
    limit: Option<i64>,
    before: Option<C>,
}

/// The page that a request wants, of the entries that pass a filter.
#[derive(Debug)]
pub struct FilteredPageQuery<F, C> {
    /// The other parameters.
    pub filter: F,
    /// The page.
    pub page: PageQuery<C>,
}

/// A page.
#[derive(Debug, PartialEq, Eq)]
pub struct ListPage<T, C> {
    /// Its entries.
    pub entries: Vec<T>,
    /// The `before` for the next page; none on the last one.
    pub next_before: Option<C>,
}

impl<C: PageCursor> PageQuery<C> {
    /// The entry that precedes the page.
    pub fn before(&self) -> Option<C> {
        self.before.clone()
    }

    /// The number of entries to read: one more than the page has, to see whether there is a next
    /// page.
    pub fn to_read(&self) -> i64 {
        self.limit() + 1
    }

    /// The page of the entries that were read.
    pub fn page<T>(&self, mut read: Vec<T>, cursor: impl Fn(&T) -> C) -> ListPage<T, C> {
        let limit = usize::try_from(self.limit()).unwrap_or(usize::MAX);
        let has_more = read.len() > limit;
        read.truncate(limit);
        let next_before = read.last().filter(|_| has_more).map(cursor);
        ListPage { entries: read, next_before }
    }

    fn limit(&self) -> i64 {
        self.limit.unwrap_or(C::LIMIT_DEFAULT)
    }
}

impl<C: PageCursor> IntoParams for PageQuery<C> {
    fn into_params(parameter_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let (entries, max) = (C::ENTRIES, C::LIMIT_MAX);
        let parameter = |name: &str, description: String, schema: ObjectBuilder| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(parameter_in().unwrap_or(ParameterIn::Query))
                .required(utoipa::openapi::Required::False)
                .description(Some(description))
                .schema(Some(schema))
                .build()
        };
        let limit = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(1))
            .maximum(Some(max))
            .default(Some(json!(C::LIMIT_DEFAULT)));
        let before = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom(C::FORMAT.to_owned())));
        let following = C::FOLLOWING;
        let next = format!(
            "Only {entries} {following} this one; pass the `next_before` of a page to get the next one."
        );
        vec![
            parameter(LIMIT, format!("The number of {entries}: 1 to {max}."), limit),
            parameter(BEFORE, next, before),
        ]
    }
}

impl<C: PageCursor> RequestQuery for PageQuery<C> {}

impl<F: IntoParams, C: PageCursor> IntoParams for FilteredPageQuery<F, C> {
    fn into_params(parameter_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let mut parameters = PageQuery::<C>::into_params(&parameter_in);
        parameters.extend(F::into_params(parameter_in));
        parameters
    }
}

impl<'de, F: DeserializeOwned, C: PageCursor> serde::Deserialize<'de> for FilteredPageQuery<F, C> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut filter = Map::<String, Value>::deserialize(deserializer)?;
        let of_page = [LIMIT, BEFORE].into_iter().filter_map(|name| filter.remove_entry(name));
        let page = serde_json::from_value(Value::Object(of_page.collect()));
        let filter = serde_json::from_value(Value::Object(filter));
        Ok(Self {
            filter: filter.map_err(D::Error::custom)?,
            page: page.map_err(D::Error::custom)?,
        })
    }
}

impl<F: RequestQuery, C: PageCursor> RequestQuery for FilteredPageQuery<F, C> {
    fn check(fields: &GoodFields<'_>, web: &WebState, problems: &mut FieldProblems) {
        F::check(fields, web, problems);
    }
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    #[derive(Debug, PartialEq, Eq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct KindFilter {
        kind: Option<String>,
    }

    fn order(number: u8) -> OrderId {
        OrderId::new(Timestamp::from_unix_micros(0), [number; 10])
    }

    #[test]
    fn a_page_names_the_next_one_only_if_more_was_read() {
        let query = PageQuery { limit: Some(2), before: Some(order(9)) };
        assert_eq!((query.to_read(), query.before()), (3, Some(order(9))));

        let full = query.page(vec![order(3), order(2), order(1)], |id| *id);
        let entries = vec![order(3), order(2)];
        assert_eq!(full, ListPage { entries, next_before: Some(order(2)) });
        let last = query.page(vec![order(2), order(1)], |id| *id);
        assert_eq!(last, ListPage { entries: vec![order(2), order(1)], next_before: None });
        let empty = query.page(Vec::new(), |id: &OrderId| *id);
        assert_eq!(empty, ListPage { entries: Vec::new(), next_before: None });
    }

    #[test]
    fn parameters_of_the_page_and_of_the_filter_are_told_apart() {
        let read = |sent: Value| -> Result<FilteredPageQuery<KindFilter, OrderId>, _> {
            serde_json::from_value(sent)
        };

        let both = read(json!({"limit": 7, "before": order(1), "kind": "pack"})).unwrap();
        assert_eq!((both.page.to_read(), both.page.before()), (8, Some(order(1))));
        assert_eq!(both.filter.kind.as_deref(), Some("pack"));
        let none = read(json!({})).unwrap();
        assert_eq!((none.page.to_read(), none.page.before()), (OrderId::LIMIT_DEFAULT + 1, None));
        assert!(read(json!({"other": 1})).is_err());
    }
}
