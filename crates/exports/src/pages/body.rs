//! Parses the body of one page: its rows in their original text, and what it says about the list.

use catalog::Dataset;
use catalog::dataset::{JsonPointer, TimeUnit};
use domain::time::{MICROS_PER_MILLI, MICROS_PER_SECOND, Timestamp};

use super::fault::PageFault;
use super::scan::{self, BrokenText, ListElement, TextProblem, ValueKind};
use super::seen;

/// The longest cursor, in bytes.
const CURSOR_BYTES_MAX: usize = 4096;
/// The longest row, in bytes.
const ROW_BYTES_MAX: usize = tabular::ROW_BYTES_MAX;

/// A page as the platform returned it.
#[derive(Debug, Default)]
pub(super) struct PageBody<'a> {
    /// Its rows, in order.
    pub(super) rows: Vec<RowKey<'a>>,
    /// Whether more rows follow, if the platform says so.
    pub(super) more: Option<bool>,
    /// The next cursor, in a list with cursors; `None` on the last page.
    pub(super) next: Option<String>,
    /// The length of the whole list, if the platform reports it.
    pub(super) total: Option<u64>,
}

/// The identity of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowKey<'a> {
    /// Its offset in the page.
    pub(super) at: usize,
    /// Its original text.
    pub(super) text: &'a str,
    /// Its id, in the original text.
    pub(super) id: &'a str,
    /// The id's fingerprint.
    pub(super) fingerprint: u64,
    /// Its time, in the original text.
    pub(super) time: Option<&'a str>,
}

/// Parses page `number`. An empty body is a page without rows, if the dataset allows that.
pub(super) fn read<'a>(
    dataset: &Dataset,
    text: &'a str,
    number: u64,
) -> Result<PageBody<'a>, PageFault> {
    if text.is_empty() && dataset.paging.empty_body {
        return Ok(PageBody::default());
    }
    let paging = &dataset.paging;
    let signs =
        [Some(&dataset.rows), paging.more.as_ref(), paging.next.as_ref(), paging.total.as_ref()];
    let page = scan::scan_list(text, &signs, &signs_of_row(dataset))
        .map_err(|error| broken(text, error, number))?;
    if page.found.is_twice {
        return Err(PageFault::malformed(number, "one of its fields appears twice"));
    }
    let [_, more, next, total] = page.found.values;
    let Some(rows) = page.list else {
        let message = format!("page {number} has no list of rows at {}", dataset.rows);
        return Err(PageFault::last("missing_rows", message));
    };
    check_rows(&rows, number)?;
    Ok(PageBody {
        more: paging.more.as_ref().map(|at| more_of(more, at, number)).transpose()?,
        next: match &paging.next {
            Some(at) => next_of(next, at, number)?,
            None => None,
        },
        total: paging.total.as_ref().map(|at| total_of(total, at, number)).transpose()?,
        rows: rows.into_iter().map(|row| known(dataset, &row, number)).collect::<Result<_, _>>()?,
    })
}

/// The pointers to a row's id and time.
const fn signs_of_row(dataset: &Dataset) -> [Option<&JsonPointer>; 2] {
    [Some(&dataset.id), Some(&dataset.time.field)]
}

/// The fault for invalid JSON: it says where, but never quotes the content.
fn broken(text: &str, BrokenText { problem, at }: BrokenText, number: u64) -> PageFault {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    let mut lines = before.split(|byte| *byte == b'\n');
    let column = lines.next_back().map_or(0, <[u8]>::len) + 1;
    let line = lines.count() + 1;
    let problem = match problem {
        TextProblem::NotJson => "it is not JSON",
        TextProblem::NoList => "its rows are not a list",
    };
    PageFault::malformed(number, &format!("{problem} (line {line}, column {column})"))
}

fn check_rows(rows: &[ListElement<'_>], number: u64) -> Result<(), PageFault> {
    for row in rows {
        if scan::kind(row.text) != ValueKind::Object {
            return Err(PageFault::malformed(number, "a row is not an object"));
        }
        if row.text.len() > ROW_BYTES_MAX {
            let message = format!("a row of page {number} is longer than {ROW_BYTES_MAX} bytes");
            return Err(PageFault::last("row_too_large", message));
        }
    }
    Ok(())
}

fn more_of(value: Option<&str>, at: &JsonPointer, number: u64) -> Result<bool, PageFault> {
    match value.map(scan::kind) {
        Some(ValueKind::Bool(more)) => Ok(more),
        Some(_) => Err(PageFault::malformed(number, &format!("{at} is neither true nor false"))),
        None => {
            let message = format!("page {number} does not say at {at} whether more pages follow");
            Err(PageFault::last("missing_has_more", message))
        }
    }
}

fn next_of(
    value: Option<&str>,
    at: &JsonPointer,
    number: u64,
) -> Result<Option<String>, PageFault> {
    let Some(value) = value else {
        let message = format!("page {number} has no field {at} for the next cursor");
        return Err(PageFault::last("missing_cursor", message));
    };
    if scan::kind(value) == ValueKind::Null {
        return Ok(None);
    }
    match scan::plain(value) {
        Some(cursor) if cursor.len() <= CURSOR_BYTES_MAX => {
            Ok(Some(cursor.into_owned()).filter(|cursor| !cursor.is_empty()))
        }
        Some(_) | None => Err(PageFault::malformed(number, &format!("{at} is not a cursor"))),
    }
}

fn total_of(value: Option<&str>, at: &JsonPointer, number: u64) -> Result<u64, PageFault> {
    let Some(value) = value else {
        let message = format!("page {number} does not give the length of the list at {at}");
        return Err(PageFault::last("missing_total", message));
    };
    let total = Some(value).filter(|value| scan::kind(value) == ValueKind::Whole);
    total
        .and_then(|total| total.parse().ok())
        .ok_or_else(|| PageFault::malformed(number, &format!("{at} is not a number of rows")))
}

/// The identity of a row given as separate text.
pub(super) fn row<'a>(
    dataset: &Dataset,
    text: &'a str,
    number: u64,
) -> Result<RowKey<'a>, PageFault> {
    let found = scan::scan(text, &signs_of_row(dataset));
    let found = found.map_err(|_| PageFault::malformed(number, "a row is not JSON"))?;
    known(dataset, &ListElement { at: 0, text, found }, number)
}

/// The identity of a row.
fn known<'a>(
    dataset: &Dataset,
    row: &ListElement<'a>,
    number: u64,
) -> Result<RowKey<'a>, PageFault> {
    let ListElement { at: start, text, found } = *row;
    if found.is_twice {
        return Err(PageFault::malformed(number, "the id or the time of a row appears twice"));
    }
    let [id, time, ..] = found.values;
    let at = &dataset.id;
    let id = id.filter(|id| scan::kind(id) != ValueKind::Null).ok_or_else(|| {
        PageFault::last("missing_id", format!("a row of page {number} has no id at {at}"))
    })?;
    let written = scan::inner(id);
    let is_id = matches!(scan::kind(id), ValueKind::Text | ValueKind::Whole);
    if !is_id || written.is_empty() || written.len() > CURSOR_BYTES_MAX {
        let problem = format!("a row's {at} is neither text nor a whole number");
        return Err(PageFault::malformed(number, &problem));
    }
    Ok(RowKey {
        at: start,
        text,
        id,
        fingerprint: seen::fingerprint(written),
        time: time.filter(|time| scan::kind(time) != ValueKind::Null),
    })
}

/// Reads a row's time; `None` if it is missing and the dataset allows that.
pub(super) fn time(
    dataset: &Dataset,
    row: &RowKey<'_>,
    number: u64,
) -> Result<Option<Timestamp>, PageFault> {
    let at = &dataset.time.field;
    let Some(value) = row.time else {
        if dataset.time.optional {
            return Ok(None);
        }
        let message = format!("a row of page {number} has no time at {at}");
        return Err(PageFault::last("missing_time", message));
    };
    let read = match dataset.time.unit {
        TimeUnit::Rfc3339 => {
            let text = scan::plain(value).filter(|_| scan::kind(value) == ValueKind::Text);
            text.and_then(|text| Timestamp::from_rfc3339(&text))
        }
        TimeUnit::UnixMillis => decimal_micros(value, MICROS_PER_MILLI),
        TimeUnit::UnixSeconds => decimal_micros(value, MICROS_PER_SECOND),
    };
    read.map(Some)
        .ok_or_else(|| PageFault::malformed(number, &format!("a row's {at} is not a valid time")))
}

/// A decimal number, with or without a fraction, as a time; `unit` is the number of microseconds in
/// one.
fn decimal_micros(value: &str, unit: i64) -> Option<Timestamp> {
    if !matches!(scan::kind(value), ValueKind::Whole | ValueKind::Number) {
        return None;
    }
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let mut micros = whole.parse::<i64>().ok()?.checked_mul(unit)?;
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    let mut worth = unit / 10;
    for digit in fraction.bytes() {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        micros = micros.checked_add(sign * digit * worth)?;
        worth /= 10;
    }
    Some(Timestamp::from_unix_micros(micros))
}

#[cfg(test)]
mod tests {
    use catalog::Catalog;
    use domain::dataset::DatasetName;
    use domain::platform::Platform;

    use super::super::fault::PageRemedy;
    use super::*;

    fn dataset(platform: Platform, name: DatasetName) -> Dataset {
        Catalog::built_in().unwrap().platform(platform).dataset(name).unwrap().clone()
    }

    fn subscribers(platform: Platform) -> Dataset {
        dataset(platform, DatasetName::Subscribers)
    }

    fn code(dataset: &Dataset, text: &str) -> &'static str {
        read(dataset, text, 2).unwrap_err().code
    }

    #[test]
    fn pages_of_each_style_are_parsed() {
        let alpha = subscribers(Platform::ALPHA);
        let page = read(&alpha, r#"{"hasMore":true, "list":[ {"id":1} ,{"id":2}]}"#, 1).unwrap();
        assert_eq!((page.rows.len(), page.more, page.total), (2, Some(true), None));
        assert_eq!(page.rows[0].text, r#"{"id":1}"#);

        let beta = subscribers(Platform::BETA);
        let empty = r#"{"subscribers":[],"total":0,"hasMore":false}"#;
        let none = read(&beta, empty, 1).unwrap();
        assert_eq!((none.rows.len(), none.more, none.total), (0, Some(false), Some(0)));

        let gamma = subscribers(Platform::GAMMA);
        assert_eq!(read(&gamma, " [{\"_id\":\"a\"}] ", 1).unwrap().rows.len(), 1);
        for number in [1, 2] {
            assert!(read(&gamma, "", number).unwrap().rows.is_empty());
        }

        let delta = dataset(Platform::DELTA, DatasetName::Transactions);
        let next = |text| read(&delta, text, 1).unwrap().next;
        assert_eq!(next(r#"{"data":[],"nextCursor":"a\u0042"}"#).as_deref(), Some("aB"));
        assert_eq!(next(r#"{"data":[],"nextCursor":17}"#).as_deref(), Some("17"));
        assert_eq!(next(r#"{"data":[],"nextCursor":null}"#), None);
        assert_eq!(next(r#"{"data":[],"nextCursor":""}"#), None);
    }

    #[test]
    fn each_page_error_has_its_code() {
        let (alpha, beta) = (subscribers(Platform::ALPHA), subscribers(Platform::BETA));
        let gamma = subscribers(Platform::GAMMA);
        let delta = dataset(Platform::DELTA, DatasetName::Transactions);
        for (dataset, text, expected) in [
            (&alpha, r#"{"hasMore":true}"#, "missing_rows"),
            (&alpha, r#"{"list":[]}"#, "missing_has_more"),
            (&alpha, r#"{"list":[],"hasMore":"true"}"#, "malformed_page"),
            (&alpha, r#"{"list":[],"hasMore":null}"#, "malformed_page"),
            (&alpha, r#"{"list":{},"hasMore":true}"#, "malformed_page"),
            (&alpha, r#"{"list":null,"hasMore":true}"#, "malformed_page"),
            (&alpha, r#"{"list":[1],"hasMore":true}"#, "malformed_page"),
            (&alpha, r#"{"list":[],"list":[],"hasMore":true}"#, "malformed_page"),
            (&alpha, r#"{"list":[],"hasMore":true"#, "malformed_page"),
            (&alpha, r#"{"list":[{"id":1,}],"hasMore":true}"#, "malformed_page"),
            (&alpha, r#"{"list":[],"hasMore":true} x"#, "malformed_page"),
            (&alpha, "[]", "missing_rows"),
            (&alpha, "", "malformed_page"),
            (&beta, r#"{"subscribers":[],"hasMore":false}"#, "missing_total"),
            (&beta, r#"{"subscribers":[],"hasMore":false,"total":-1}"#, "malformed_page"),
            (&beta, r#"{"subscribers":[],"hasMore":false,"total":"1"}"#, "malformed_page"),
            (&beta, r#"{"subscribers":[],"hasMore":false,"total":1.0}"#, "malformed_page"),
            (&gamma, r#"{"data":[]}"#, "malformed_page"),
            (&gamma, "[[]]", "malformed_page"),
            (&gamma, "[{}", "malformed_page"),
            (&delta, r#"{"data":[]}"#, "missing_cursor"),
            (&delta, r#"{"data":[],"nextCursor":{}}"#, "malformed_page"),
            (&delta, r#"{"data":[],"nextCursor":false}"#, "malformed_page"),
        ] {
            assert_eq!(code(dataset, text), expected, "{text}");
        }
        let long = format!("[{{\"_id\":\"{}\"}}]", "a".repeat(ROW_BYTES_MAX));
        assert_eq!(code(&gamma, &long), "row_too_large");
    }

    #[test]
    fn row_identity_does_not_depend_on_formatting() {
        let alpha = subscribers(Platform::ALPHA);
        let known = |text: &str| row(&alpha, text, 3).map(|row| row.fingerprint);

        assert_eq!(known(r#"{"id":17}"#).unwrap(), known(r#"{"a":1,"id":"17"}"#).unwrap());
        assert_ne!(known(r#"{"id":17}"#).unwrap(), known(r#"{"id":18}"#).unwrap());
        for (text, expected) in [
            ("{}", "missing_id"),
            (r#"{"id":null}"#, "missing_id"),
            (r#"{"x":{"id":1}}"#, "missing_id"),
            (r#"{"id":""}"#, "malformed_page"),
            (r#"{"id":true}"#, "malformed_page"),
            (r#"{"id":1.5}"#, "malformed_page"),
            (r#"{"id":[1]}"#, "malformed_page"),
            (r#"{"id":1,"id":2}"#, "malformed_page"),
        ] {
            let fault = known(text).unwrap_err();
            assert_eq!(fault.code, expected, "{text}");
            assert!(
                fault.remedy == PageRemedy::None && fault.message.contains("page 3"),
                "{fault}"
            );
        }
    }

    #[test]
    fn times_in_every_unit_are_parsed() {
        let mut dataset = subscribers(Platform::BETA);
        let mut told = |unit, value: &str| {
            dataset.time.unit = unit;
            let text = format!("{{\"id\":1,\"createdAt\":{value}}}");
            let row = row(&dataset, &text, 1).unwrap();
            let read = time(&dataset, &row, 1);
            read.map(|time| time.unwrap().to_rfc3339()).map_err(|fault| fault.code)
        };
        for (unit, value, expected) in [
            (TimeUnit::UnixMillis, "1500", Ok("1970-01-01T00:00:01.500000Z")),
            (TimeUnit::UnixMillis, "-1", Ok("1969-12-31T23:59:59.999000Z")),
            (TimeUnit::UnixSeconds, "1.25", Ok("1970-01-01T00:00:01.250000Z")),
            (TimeUnit::UnixSeconds, "-1.25", Ok("1969-12-31T23:59:58.750000Z")),
            (TimeUnit::UnixSeconds, "7", Ok("1970-01-01T00:00:07.000000Z")),
            (TimeUnit::Rfc3339, "\"1970-01-01T01:00:00+01:00\"", Ok("1970-01-01T00:00:00.000000Z")),
            (TimeUnit::Rfc3339, "\"1970-01-01T00:00:00\"", Err("malformed_page")),
            (TimeUnit::Rfc3339, "12", Err("malformed_page")),
            (TimeUnit::UnixMillis, "\"12\"", Err("malformed_page")),
            (TimeUnit::UnixMillis, "1e3", Err("malformed_page")),
            (TimeUnit::UnixMillis, "9223372036854775807", Err("malformed_page")),
            (TimeUnit::UnixMillis, "true", Err("malformed_page")),
            (TimeUnit::UnixMillis, "null", Err("missing_time")),
        ] {
            assert_eq!(told(unit, value).as_deref().map_err(|code| *code), expected, "{value}");
        }
    }

    #[test]
    fn time_may_be_missing_if_the_dataset_allows_it() {
        let chats = dataset(Platform::ALPHA, DatasetName::Chats);

        for text in [r#"{"id":1}"#, r#"{"id":1,"lastMessage":null}"#] {
            let row = row(&chats, text, 1).unwrap();
            assert_eq!(time(&chats, &row, 1), Ok(None), "{text}");
        }
    }
}
