//! Ids, pages and accounts, shared by all groups of routes.

use serde_json::{Map, Value, json};

use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PageSizes, PlatformCall};
use crate::overlay::{Overlay, OverlayPage};
use crate::world::ids::{self, Kind};
use crate::world::people::PEERS;
use crate::world::series::Series;

/// The default and the maximum number of rows of a page.
pub(super) const PAGE: PageSizes = PageSizes { default: 20, max: 100 };

/// The generated part of a collection without any.
pub(super) const NOTHING: Series = Series::all(0);

/// The most things that a request may name.
const IDS_MAX: usize = 500;

/// The longest text that may be written, in bytes.
const TEXT_BYTES_MAX: usize = 10_000;

/// A collection: the table that changes are written to, the generated things, and the kind of their
/// ids.
#[derive(Clone, Copy)]
pub(super) struct Collection<'a> {
    pub(super) table: &'a str,
    pub(super) series: Series,
    pub(super) kind: Kind,
}

/// The owner of an account.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AccountRef {
    /// The calling creator.
    Creator,
    Fan(u64),
    /// Another creator.
    Peer(u64),
}

/// Cents as mills.
pub(super) fn mills(cents: i64) -> i64 {
    cents * 10
}

/// The creator's share, in mills, of an amount paid in cents: 80 percent.
pub(super) fn net_mills(gross_cents: i64) -> i64 {
    mills(gross_cents) * 4 / 5
}

/// The id of one of the calling creator's things.
pub(super) fn id(call: &PlatformCall<'_>, kind: Kind, index: u64) -> String {
    ids::number(kind, call.world.creator, index).to_string()
}

/// The index of an id of this kind.
pub(super) fn index_of(call: &PlatformCall<'_>, kind: Kind, id: &str) -> Option<u64> {
    ids::index_of_digits(kind, call.world.creator, id)
}

/// An id in a JSON body: digits as text or as a number.
pub(super) fn id_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The id in a body's field; 400 if it is missing.
pub(super) fn body_id(call: &PlatformCall<'_>, name: &str) -> Result<String, Refusal> {
    match call.field(name) {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(Refusal::bad_request(format!("{name} is required"))),
    }
}

/// The ids in a body's field; 400 if it is not a list with at least one.
pub(super) fn body_ids(call: &PlatformCall<'_>, name: &str) -> Result<Vec<String>, Refusal> {
    let sent = call.field(name).as_array().filter(|sent| !sent.is_empty());
    let sent = sent.ok_or_else(|| Refusal::bad_request(format!("{name} is required")))?;
    if sent.len() > IDS_MAX {
        return Err(Refusal::bad_request(format!("{name} has more than {IDS_MAX} ids")));
    }
    Ok(sent.iter().map(id_text).collect())
}

/// The ids in the query, comma-separated or repeated; 400 if there are none.
pub(super) fn query_ids(call: &PlatformCall<'_>, name: &str) -> Result<Vec<String>, Refusal> {
    let sent = call.query_all(name).flat_map(|text| text.split(','));
    let ids: Vec<String> = sent.filter(|id| !id.is_empty()).map(str::to_owned).collect();
    match ids.len() {
        0 => Err(Refusal::bad_request(format!("{name} is required"))),
        1..=IDS_MAX => Ok(ids),
        _ => Err(Refusal::bad_request(format!("{name} has more than {IDS_MAX} ids"))),
    }
}

/// The single id in the query; 400 if it is missing.
pub(super) fn query_id<'a>(call: &'a PlatformCall<'_>, name: &str) -> Result<&'a str, Refusal> {
    let sent = call.query(name).filter(|id| !id.is_empty());
    sent.ok_or_else(|| Refusal::bad_request(format!("{name} is required")))
}

/// The text fields that the body contains; 400 if one is not text, or if there are none.
pub(super) fn text_fields(
    call: &PlatformCall<'_>,
    names: &[&str],
) -> Result<Map<String, Value>, Refusal> {
    let fields = call.fields(names);
    for (name, value) in &fields {
        if value.as_str().is_none_or(|text| text.len() > TEXT_BYTES_MAX) {
            return Err(Refusal::bad_request(format!("{name} is not a text")));
        }
    }
    if fields.is_empty() {
        return Err(Refusal::bad_request(format!("One of {} is required", names.join(", "))));
    }
    Ok(fields)
}

/// An amount in mills from the body, 0 if it is missing.
pub(super) fn price(call: &PlatformCall<'_>) -> Result<i64, Refusal> {
    match call.field("price") {
        Value::Null => Ok(0),
        sent => sent
            .as_i64()
            .filter(|price| *price >= 0)
            .ok_or_else(|| Refusal::bad_request("price is not an amount in mills")),
    }
}

impl Collection<'_> {
    /// The index of an id of a thing in the collection; 404 otherwise.
    pub(super) fn find(
        &self,
        call: &PlatformCall<'_>,
        overlay: &Overlay,
        id: &str,
        what: &str,
    ) -> Result<u64, Refusal> {
        index_of(call, self.kind, id)
            .filter(|index| overlay.holds(self.table, self.series, *index))
            .ok_or_else(|| Refusal::not_found(what))
    }

    /// The page that the query requests.
    pub(super) fn page(
        &self,
        call: &PlatformCall<'_>,
        overlay: &Overlay,
    ) -> Result<OverlayPage, Refusal> {
        let total = overlay.count(self.table, self.series);
        let window = window(call, total, |id| {
            let index = index_of(call, self.kind, id)?;
            overlay.place_of(self.table, self.series, index)
        })?;
        let page = overlay.page(self.table, self.series, window.start, window.end - window.start);
        Ok(OverlayPage { has_more: window.has_more, ..page })
    }

    /// The page of the query as `{<noun>: […], "total": …, "hasMore": …}`.
    pub(super) fn list(
        &self,
        call: &PlatformCall<'_>,
        overlay: &Overlay,
        noun: &str,
        row: impl Fn(u64) -> Value,
    ) -> Outcome {
        let OverlayPage { indexes, total, has_more } = self.page(call, overlay)?;
        let rows: Vec<Value> = indexes.into_iter().map(row).collect();
        Ok(Answer::ok(json!({noun: rows, "total": total, "hasMore": has_more})))
    }

    /// Moves these things in front of all others, in this order; all must be in the collection.
    pub(super) fn reorder(
        &self,
        call: &PlatformCall<'_>,
        overlay: &mut Overlay,
        ids: &[String],
        what: &str,
    ) -> Result<(), Refusal> {
        let indexes: Vec<u64> =
            ids.iter().map(|id| self.find(call, overlay, id, what)).collect::<Result<_, _>>()?;
        for index in indexes.into_iter().rev() {
            overlay.put(self.table, index);
        }
        Ok(())
    }

    /// All things of a collection known to be small.
    pub(super) fn all(&self, overlay: &Overlay) -> Vec<u64> {
        overlay.page(self.table, self.series, 0, u64::MAX).indexes
    }
}

/// The number of rows that the query requests: capped at the maximum; 0 is refused.
pub(super) fn limit(call: &PlatformCall<'_>) -> Result<u64, Refusal> {
    let limit = call.query_number("limit")?.unwrap_or(PAGE.default);
    if limit == 0 {
        return Err(Refusal::bad_request("limit is at least 1"));
    }
    Ok(limit.min(PAGE.max))
}

/// A cursor of the query; empty and 0 mean none.
pub(super) fn cursor<'a>(call: &'a PlatformCall<'_>, name: &str) -> Option<&'a str> {
    call.query(name).filter(|id| !matches!(*id, "" | "0"))
}

/// The part of a list that the query requests, by positions; the newest thing is at position 0.
pub(super) struct PageWindow {
    pub(super) start: u64,
    /// Not less than `start`.
    pub(super) end: u64,
    /// Whether more follows in the direction of reading.
    pub(super) has_more: bool,
}

/// The things `before` an id (older), `after` an id (newer, and next to it), between the two, or
/// after `offset` things. 404 if the thing of a cursor is not in the list: a list that continued
/// elsewhere would be mistaken for a complete one.
pub(super) fn window(
    call: &PlatformCall<'_>,
    total: u64,
    place_of: impl Fn(&str) -> Option<u64>,
) -> Result<PageWindow, Refusal> {
    let place = |name: &str| {
        let found = cursor(call, name).map(&place_of);
        found
            .map(|place| place.ok_or_else(|| Refusal::not_found("Entry of the cursor")))
            .transpose()
    };
    let (limit, before, after) = (limit(call)?, place("before")?, place("after")?);
    if let (None, Some(end)) = (before, after) {
        let start = end.saturating_sub(limit);
        return Ok(PageWindow { start, end, has_more: start > 0 });
    }
    let last = after.unwrap_or(total);
    let offset = call.query_number("offset")?.unwrap_or(0);
    let start = before.map_or(offset, |before| before + 1).min(last);
    let end = start.saturating_add(limit).min(last);
    Ok(PageWindow { start, end, has_more: end < last })
}

/// The page of the query out of things that were looked up one by one. A cursor is the `id` of a
/// row.
pub(super) fn list_of<T: Clone>(
    call: &PlatformCall<'_>,
    noun: &str,
    things: Vec<T>,
    row: impl Fn(T) -> Value,
) -> Outcome {
    let total = things.len() as u64;
    let PageWindow { start, end, has_more } = window(call, total, |sent| {
        let is_it = |thing: &T| row(thing.clone()).get("id").and_then(Value::as_str) == Some(sent);
        things.iter().position(is_it).map(|place| place as u64)
    })?;
    let number = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
    let shown = things.into_iter().skip(number(start)).take(number(end - start));
    let page: Vec<Value> = shown.map(row).collect();
    Ok(Answer::ok(json!({noun: page, "total": total, "hasMore": has_more})))
}

/// The account with this id.
pub(super) fn who(call: &PlatformCall<'_>, id: &str) -> Option<AccountRef> {
    if index_of(call, Kind::Creator, id) == Some(0) {
        return Some(AccountRef::Creator);
    }
    if let Some(fan) = index_of(call, Kind::Fan, id) {
        return (fan < call.world.fans).then_some(AccountRef::Fan(fan));
    }
    let peer = index_of(call, Kind::Peer, id)?;
    (peer < PEERS).then_some(AccountRef::Peer(peer))
}

/// The account with this id; 404 if it is unknown.
pub(super) fn somebody(call: &PlatformCall<'_>, id: &str) -> Result<AccountRef, Refusal> {
    who(call, id).ok_or_else(|| Refusal::not_found("Account"))
}

/// The id of an account.
pub(super) fn account_id(call: &PlatformCall<'_>, who: AccountRef) -> String {
    match who {
        AccountRef::Creator => id(call, Kind::Creator, 0),
        AccountRef::Fan(fan) => id(call, Kind::Fan, fan),
        AccountRef::Peer(peer) => id(call, Kind::Peer, peer),
    }
}

/// The sent fields, if all of them are known and have values of the right type.
pub(super) fn merged(
    known: &Map<String, Value>,
    sent: &Value,
) -> Result<Map<String, Value>, Refusal> {
    let sent = sent.as_object().filter(|sent| !sent.is_empty());
    let sent = sent.ok_or_else(|| Refusal::bad_request("A body with fields is required"))?;
    for (name, value) in sent {
        let same_type = known
            .get(name)
            .is_some_and(|old| std::mem::discriminant(old) == std::mem::discriminant(value));
        if !same_type {
            return Err(Refusal::bad_request(format!("{name} is not known or has a wrong value")));
        }
    }
    Ok(sent.clone())
}
