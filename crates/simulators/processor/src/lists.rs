//! Pages of lists, newest first, and the search of customers, intents and prices.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{at, flag, text, whole};
use super::problem::ApiError;

/// The parameters of every list.
pub(super) const PARAMS: [&str; 8] = [
    "limit",
    "starting_after",
    "ending_before",
    "created",
    "created.gt",
    "created.gte",
    "created.lt",
    "created.lte",
];

/// A page of the matching objects of a kind.
pub(super) fn page(
    call: &ApiCall<'_>,
    kind: &str,
    url: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Value, ApiError> {
    let within = created(call)?;
    let all: Vec<&Value> = call
        .store
        .all(kind)
        .rev()
        .filter(|object| within.holds(whole(object, "created")) && wanted(object))
        .collect();
    of(call, &all, url)
}

/// A page of these objects.
pub(super) fn of(call: &ApiCall<'_>, all: &[&Value], url: &str) -> Result<Value, ApiError> {
    let limit = limit(call)?;
    let place = |param: &str| match call.params.text(param) {
        None => Ok(None),
        Some(id) => {
            let found = all.iter().position(|object| text(object, "id") == id);
            let refuse = || {
                ApiError::param(param, format!("No such object: '{id}'")).code("resource_missing")
            };
            // An object that exists but is not in this list is not a valid cursor.
            found.map(Some).ok_or_else(refuse)
        }
    };
    let (after, before) = (place("starting_after")?, place("ending_before")?);
    let (start, has_more) = match (after, before) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "You may only specify one of these parameters: starting_after, ending_before.",
            ));
        }
        (None, Some(before)) => (before.saturating_sub(limit), before > limit),
        (after, None) => {
            let start = after.map_or(0, |after| after + 1);
            (start, all.len() > start + limit)
        }
    };
    let end = before.unwrap_or(start + limit).min(all.len());
    let data: Vec<Value> =
        all.get(start..end).unwrap_or_default().iter().map(|object| (*object).clone()).collect();
    Ok(json!({"object": "list", "data": data, "has_more": has_more, "url": url}))
}

fn limit(call: &ApiCall<'_>) -> Result<usize, ApiError> {
    let limit = call.params.integer("limit")?.unwrap_or(10);
    let refuse = || {
        let message = "This value must be between 1 and 100.";
        ApiError::param("limit", message).code("parameter_invalid_integer")
    };
    usize::try_from(limit).ok().filter(|limit| (1..=100).contains(limit)).ok_or_else(refuse)
}

struct CreatedFilter {
    from: i64,
    to: i64,
}

impl CreatedFilter {
    fn holds(&self, at: i64) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

fn created(call: &ApiCall<'_>) -> Result<CreatedFilter, ApiError> {
    let number = |name: &str| call.params.integer(name);
    if let Some(at) = number("created")? {
        return Ok(CreatedFilter { from: at, to: at });
    }
    let from = number("created.gte")?
        .unwrap_or(i64::MIN)
        .max(number("created.gt")?.map_or(i64::MIN, |at| at + 1));
    let to = number("created.lte")?
        .unwrap_or(i64::MAX)
        .min(number("created.lt")?.map_or(i64::MAX, |at| at - 1));
    Ok(CreatedFilter { from, to })
}

/// A search: `metadata['order_id']:'ord_1' AND status:"succeeded" AND created>1700000000`.
pub(super) fn search(call: &ApiCall<'_>, kind: &str, url: &str) -> Result<Value, ApiError> {
    let query = call.params.required("query")?;
    let clauses = query
        .split(" AND ")
        .map(|clause| SearchClause::parse(clause, query, kind))
        .collect::<Result<Vec<_>, _>>()?;
    let found: Vec<&Value> = call
        .store
        .all(kind)
        .rev()
        .filter(|object| !flag(object, "deleted"))
        .filter(|object| clauses.iter().all(|clause| clause.fits(object)))
        .collect();
    let start = call.params.text("page").map_or(Ok(0), |page| {
        page.parse::<usize>().map_err(|_| ApiError::param("page", "Invalid page token"))
    })?;
    let limit = limit(call)?;
    let data: Vec<Value> =
        found.iter().skip(start).take(limit).map(|object| (*object).clone()).collect();
    let more = found.len() > start + limit;
    let next = more.then(|| (start + limit).to_string());
    Ok(
        json!({"object": "search_result", "data": data, "has_more": more, "next_page": next, "url": url}),
    )
}

struct SearchClause {
    path: String,
    operator: char,
    value: String,
    negated: bool,
}

impl SearchClause {
    fn parse(text: &str, query: &str, kind: &str) -> Result<Self, ApiError> {
        let refuse = || {
            let message = format!("We were unable to parse your search query: `{query}`.");
            ApiError::param("query", message)
        };
        let trimmed = text.trim();
        let (trimmed, negated) =
            trimmed.strip_prefix('-').map_or((trimmed, false), |rest| (rest, true));
        let (field, rest) = match trimmed.strip_prefix("metadata[") {
            Some(rest) => {
                let (key, rest) = rest.split_once(']').ok_or_else(refuse)?;
                (format!("metadata.{}", quoted(key).ok_or_else(refuse)?), rest)
            }
            None => {
                let end = trimmed.find([':', '<', '>']).ok_or_else(refuse)?;
                let (field, rest) = trimmed.split_at(end);
                (field.to_owned(), rest)
            }
        };
        let known: &[&str] = match kind {
            "price" => &["active", "currency", "lookup_key", "product", "type"],
            "customer" => &["created", "email", "name", "phone"],
            _ => &["amount", "created", "currency", "customer", "status"],
        };
        if !field.starts_with("metadata.") && !known.contains(&field.as_str()) {
            let message =
                format!("Field `{field}` is an unsupported search field for resource `{kind}s`.");
            return Err(ApiError::param("query", message));
        }
        let operator =
            rest.chars().next().filter(|operator| ":<>".contains(*operator)).ok_or_else(refuse)?;
        let value = rest.get(1..).unwrap_or_default();
        let value = quoted(value)
            .or_else(|| value.parse::<i64>().ok().map(|_| value))
            .ok_or_else(refuse)?;
        Ok(Self { path: field, operator, value: value.to_owned(), negated })
    }

    fn fits(&self, object: &Value) -> bool {
        // A metadata key may contain a dot, which a path cannot.
        let found = match self.path.strip_prefix("metadata.") {
            Some(key) => at(object, "metadata").get(key).unwrap_or(&Value::Null),
            None => at(object, &self.path),
        };
        let fits = match (self.operator, found) {
            (':', Value::Bool(found)) => self.value == found.to_string(),
            (':', Value::String(found)) => found.eq_ignore_ascii_case(&self.value),
            (operator, Value::Number(found)) => {
                let (found, wanted) =
                    (found.as_i64().unwrap_or(0), self.value.parse().unwrap_or(0));
                (operator == ':' && found == wanted)
                    || (operator == '<' && found < wanted)
                    || (operator == '>' && found > wanted)
            }
            _ => false,
        };
        fits != self.negated
    }
}

fn quoted(text: &str) -> Option<&str> {
    let inner = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
    inner('\'').or_else(|| inner('"'))
}
