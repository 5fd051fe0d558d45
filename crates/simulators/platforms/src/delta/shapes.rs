//! Ids, pages and people, shared by all groups of operations.

use serde_json::{Map, Value, json};

use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::{Overlay, OverlayPage};
use crate::world::DAY_MS;
use crate::world::ids::{self, Kind};
use crate::world::series::Series;
use crate::world::time::{parse_ms, rfc3339};

const SIZE_DEFAULT: u64 = 20;
const SIZE_MAX: u64 = 50;

/// The most things that a request may name.
const UUIDS_MAX: usize = 50;
const TEXT_BYTES_MAX: usize = 10_000;

/// The generated part of a collection without any.
pub(super) const NOTHING: Series = Series::all(0);

/// A collection: the table that changes are written to, the generated things, and the kind of their
/// ids.
#[derive(Clone, Copy)]
pub(super) struct Collection<'a> {
    pub(super) table: &'a str,
    pub(super) series: Series,
    pub(super) kind: Kind,
}

impl Collection<'_> {
    /// The index of an id of a thing in the collection; 404 otherwise.
    pub(super) fn find(
        &self,
        call: &PlatformCall<'_>,
        overlay: &Overlay,
        uuid: &str,
        what: &str,
    ) -> Result<u64, Refusal> {
        index_of(call, self.kind, uuid)
            .filter(|index| overlay.holds(self.table, self.series, *index))
            .ok_or_else(|| Refusal::not_found(what))
    }

    /// The numbered page that the query requests.
    pub(super) fn page(
        &self,
        call: &PlatformCall<'_>,
        overlay: &Overlay,
        row: impl Fn(u64) -> Value,
    ) -> Outcome {
        let asked = AskedPage::of(call)?;
        let page = overlay.page(self.table, self.series, asked.offset(), asked.size);
        let rows: Vec<Value> = page.indexes.into_iter().map(row).collect();
        Ok(asked.answer(&rows, page.has_more))
    }

    /// The things after the query's `cursor`, which is the id of the last one seen.
    pub(super) fn after_cursor(
        &self,
        call: &PlatformCall<'_>,
        overlay: &Overlay,
        row: impl Fn(u64) -> Value,
    ) -> Outcome {
        let start = match cursor(call) {
            None => 0,
            Some(cursor) => {
                let index = index_of(call, self.kind, cursor);
                let place = index.and_then(|it| overlay.place_of(self.table, self.series, it));
                place.ok_or_else(bad_cursor)? + 1
            }
        };
        let OverlayPage { indexes, has_more, .. } =
            overlay.page(self.table, self.series, start, size(call)?);
        let last = indexes.last().map(|index| id(call, self.kind, *index));
        let rows: Vec<Value> = indexes.into_iter().map(row).collect();
        Ok(with_cursor(&rows, last.as_deref().filter(|_| has_more)))
    }

    /// All things of a collection known to be small.
    pub(super) fn all(&self, overlay: &Overlay) -> Vec<u64> {
        overlay.page(self.table, self.series, 0, u64::MAX).indexes
    }
}

/// `page` (from 1) and `size` (up to 50) of a query.
#[derive(Clone, Copy)]
pub(super) struct AskedPage {
    page: u64,
    pub(super) size: u64,
}

impl AskedPage {
    pub(super) fn of(call: &PlatformCall<'_>) -> Result<Self, Refusal> {
        let page = call.query_number("page")?.unwrap_or(1);
        if page == 0 {
            return Err(Refusal::bad_request("page starts at 1"));
        }
        Ok(Self { page, size: size(call)? })
    }

    /// The number of rows before the page.
    pub(super) fn offset(self) -> u64 {
        (self.page - 1).saturating_mul(self.size)
    }

    pub(super) fn answer(self, rows: &[Value], has_more: bool) -> Answer {
        let pagination = json!({"page": self.page, "size": self.size, "hasMore": has_more});
        Answer::ok(json!({"data": rows, "pagination": pagination}))
    }
}

fn size(call: &PlatformCall<'_>) -> Result<u64, Refusal> {
    let size = call.query_number("size")?.unwrap_or(SIZE_DEFAULT);
    if (1..=SIZE_MAX).contains(&size) {
        Ok(size)
    } else {
        Err(Refusal::bad_request(format!("size is not from 1 to {SIZE_MAX}")))
    }
}

/// The cursor of the query.
pub(super) fn cursor<'a>(call: &'a PlatformCall<'_>) -> Option<&'a str> {
    call.query("cursor").filter(|cursor| !cursor.is_empty())
}

/// The `size` of a query with a cursor.
pub(super) fn cursor_size(call: &PlatformCall<'_>) -> Result<usize, Refusal> {
    Ok(usize::try_from(size(call)?).unwrap_or(0))
}

pub(super) fn bad_cursor() -> Refusal {
    Refusal::bad_request("cursor is not valid")
}

/// `{"data": […], "nextCursor": …}`; the cursor is null after the last row.
pub(super) fn with_cursor(rows: &[Value], next: Option<&str>) -> Answer {
    Answer::ok(json!({"data": rows, "nextCursor": next}))
}

/// The numbered page of the query out of rows that were looked up one by one.
pub(super) fn page_of(call: &PlatformCall<'_>, rows: &[Value]) -> Outcome {
    let asked = AskedPage::of(call)?;
    let skip = usize::try_from(asked.offset()).unwrap_or(usize::MAX);
    let take = usize::try_from(asked.size).unwrap_or(0);
    let rest = rows.get(skip..).unwrap_or_default();
    let page = rest.get(..take).unwrap_or(rest);
    Ok(asked.answer(page, page.len() < rest.len()))
}

/// The id of one of the calling creator's things.
pub(super) fn id(call: &PlatformCall<'_>, kind: Kind, index: u64) -> String {
    ids::uuid(kind, call.world.creator, index)
}

/// The index of an id of this kind.
pub(super) fn index_of(call: &PlatformCall<'_>, kind: Kind, uuid: &str) -> Option<u64> {
    ids::index_of_uuid(kind, call.world.creator, uuid)
}

/// The id of the calling creator.
pub(super) fn own_id(call: &PlatformCall<'_>) -> String {
    id(call, Kind::Creator, 0)
}

/// 404 unless the path parameter `creatorUserUuid` is the calling creator.
pub(super) fn own_creator(call: &PlatformCall<'_>) -> Result<(), Refusal> {
    if call.param("creatorUserUuid") == own_id(call) {
        Ok(())
    } else {
        Err(Refusal::not_found("Creator"))
    }
}

/// The fan with this id.
pub(super) fn fan_of(call: &PlatformCall<'_>, uuid: &str) -> Result<u64, Refusal> {
    index_of(call, Kind::Fan, uuid)
        .filter(|fan| *fan < call.world.fans)
        .ok_or_else(|| Refusal::not_found("User"))
}

/// The fan of the path parameter `userUuid`.
pub(super) fn fan_param(call: &PlatformCall<'_>) -> Result<u64, Refusal> {
    fan_of(call, call.param("userUuid"))
}

/// The texts in a field of the body; 400 if it is not a list of 1 to 50 texts.
pub(super) fn body_uuids(call: &PlatformCall<'_>, name: &str) -> Result<Vec<String>, Refusal> {
    let required = || Refusal::bad_request(format!("{name} is not a list of 1 to {UUIDS_MAX} ids"));
    let sent = call.field(name).as_array().ok_or_else(required)?;
    if !(1..=UUIDS_MAX).contains(&sent.len()) {
        return Err(required());
    }
    sent.iter().map(|uuid| uuid.as_str().map(str::to_owned).ok_or_else(required)).collect()
}

/// Like [`body_uuids`], but empty if the field is missing or empty.
pub(super) fn body_uuids_if_any(
    call: &PlatformCall<'_>,
    name: &str,
) -> Result<Vec<String>, Refusal> {
    match call.field(name) {
        Value::Null => Ok(Vec::new()),
        Value::Array(sent) if sent.is_empty() => Ok(Vec::new()),
        _ => body_uuids(call, name),
    }
}

/// The fans in the body's `userUuids`; 404 if one is unknown.
pub(super) fn body_fans(call: &PlatformCall<'_>) -> Result<Vec<u64>, Refusal> {
    body_uuids(call, "userUuids")?.iter().map(|uuid| fan_of(call, uuid)).collect()
}

/// An amount in cents from the body, 0 if it is missing.
pub(super) fn price(call: &PlatformCall<'_>) -> Result<i64, Refusal> {
    match call.field("price") {
        Value::Null => Ok(0),
        sent => sent
            .as_i64()
            .filter(|price| *price >= 0)
            .ok_or_else(|| Refusal::bad_request("price is not an amount in cents")),
    }
}

/// The text fields that the body contains; 400 if one is not text, or if there are none.
pub(super) fn text_fields(
    call: &PlatformCall<'_>,
    names: &[&str],
) -> Result<Map<String, Value>, Refusal> {
    let fields = call.fields(names);
    for (name, value) in &fields {
        if value.as_str().is_none_or(|text| text.trim().is_empty() || text.len() > TEXT_BYTES_MAX) {
            return Err(Refusal::bad_request(format!("{name} is not a text")));
        }
    }
    if fields.is_empty() {
        return Err(Refusal::bad_request(format!("One of {} is required", names.join(", "))));
    }
    Ok(fields)
}

/// An RFC 3339 time in the future from the body, if there is one.
pub(super) fn future(call: &PlatformCall<'_>, name: &str) -> Result<Option<String>, Refusal> {
    if call.field(name).is_null() {
        return Ok(None);
    }
    let sent = call.field(name).as_str().and_then(parse_ms).filter(|at_ms| *at_ms > call.now_ms);
    let at_ms = sent.ok_or_else(|| Refusal::bad_request(format!("{name} is not in the future")))?;
    Ok(Some(rfc3339(at_ms)))
}

/// From `startDate` to the end of the day `endDate`, or to the moment if it is a time. Without a
/// start it covers `days` days, or everything if `days` is 0.
pub(super) fn window(call: &PlatformCall<'_>, days: i64) -> Result<(i64, i64), Refusal> {
    let bound = |name: &str, day_ms: i64| -> Result<Option<i64>, Refusal> {
        let Some(text) = call.query(name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let at_ms =
            parse_ms(text).ok_or_else(|| Refusal::bad_request(format!("{name} is not a date")))?;
        let is_day = text.len() == "2026-01-01".len();
        Ok(Some(if is_day { at_ms + day_ms } else { at_ms }))
    };
    let to_ms = bound("endDate", DAY_MS)?.unwrap_or(call.world.now_ms);
    let default_ms = if days == 0 { 0 } else { to_ms - days * DAY_MS };
    let from_ms = bound("startDate", 0)?.unwrap_or(default_ms);
    if from_ms > to_ms {
        return Err(Refusal::bad_request("startDate is after endDate"));
    }
    Ok((from_ms, to_ms))
}

/// The online fans: two of fifteen, all of them subscribers.
pub(super) fn online_fans(call: &PlatformCall<'_>) -> Series {
    Series::of(call.world.fans, 15, &[1, 2])
}

/// The short form of a fan inside other objects.
pub(super) fn user(call: &PlatformCall<'_>, fan: u64) -> Value {
    let person = call.world.fan(fan);
    let uuid = id(call, Kind::Fan, fan);
    json!({
        "uuid": uuid,
        "handle": person.username,
        "displayName": person.name,
        "avatarUrl": format!("https://cdn.delta.test/avatars/{uuid}.jpg"),
        "isOnline": online_fans(call).place_of(fan).is_some(),
        "registeredAt": rfc3339(person.subscribed_at_ms),
    })
}
