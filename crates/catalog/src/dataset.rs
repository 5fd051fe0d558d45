//! Datasets: which lists of a platform can be exported, and how each is read from its first row to
//! its last.
//!
//! Nothing here sends a request. A dataset says where the requests go, which parameters turn the
//! pages, and where rows, cursors, ids and times stand in an answer.

use domain::dataset::DatasetName;

use crate::column::DatasetColumn;
use crate::shorthand;

/// A list of a platform that can be exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// What it is called everywhere.
    pub name: DatasetName,
    /// What a row is, in one line.
    pub description: String,
    /// The template of the GET route that gives its pages: a native one, a shorthand or an internal
    /// one.
    pub route: String,
    /// What stands for the parameters of the route's path: name, and text in which `{id}` is the
    /// creator's own id and `{chat}` the conversation's.
    pub path: Vec<(String, String)>,
    /// Query parameters of every page, in the same form; not encoded.
    pub query: Vec<(String, String)>,
    /// How pages are turned.
    pub paging: PagingRules,
    /// Where the rows of a page are.
    pub rows: JsonPointer,
    /// Where a row's identity is, in the row: text or a whole number.
    pub id: JsonPointer,
    /// Where a row's time is, in the row.
    pub time: TimeField,
    /// Days by which the platform itself can narrow the list.
    pub days: Option<DayFilter>,
    /// Present on a dataset that is of one conversation: how that is named and found.
    pub chat: Option<ChatParameter>,
    /// The columns that its files have, with and without rows, in their order: the id, the time,
    /// then the rest. Rows may have other fields besides. Empty where an operator's file declares
    /// none.
    pub columns: Vec<DatasetColumn>,
    /// OAuth scopes that its routes need; empty where a platform has none.
    pub scopes: Vec<String>,
    /// The path to call, with braces where parameters stand.
    pub(crate) target: String,
    /// Query parameters that a shorthand fills in.
    pub(crate) fills: Vec<(String, String)>,
}

/// How the pages of a list are turned, and how its end is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagingRules {
    /// What says which page is wanted.
    pub style: PagingStyle,
    /// The query parameter for that.
    pub parameter: String,
    /// The query parameter for the rows of a page.
    pub size_parameter: String,
    /// How many rows are asked for, at most what the platform gives.
    pub size: u32,
    /// Where a page says whether there is more. Without it, and without a cursor, a page with fewer
    /// rows than were asked for is the last.
    pub more: Option<JsonPointer>,
    /// Where a page tells the next cursor; null or an empty text after the last page.
    pub next: Option<JsonPointer>,
    /// Where a page tells how many rows the whole list has.
    pub total: Option<JsonPointer>,
    /// Whether a list without rows is answered with no body at all.
    pub empty_body: bool,
}

/// What says which page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagingStyle {
    /// How many rows come before it.
    Offset,
    /// Its number, from 1 on.
    Page,
    /// What the page before told.
    Cursor,
    /// The id of the last row before it.
    BeforeId,
}

/// Where a value stands in JSON: names of objects inwards (RFC 6901, without arrays).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPointer {
    names: Vec<String>,
}

/// Where a row's time is and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeField {
    /// Where it is, in the row.
    pub field: JsonPointer,
    /// How it is written.
    pub unit: TimeUnit,
    /// Whether rows without a time are right; none of them lies in any window.
    pub optional: bool,
    /// Whether the rows come newest first, so that a read may end where they are older than what is
    /// wanted. Each page is held against it; the read of a list that is in another order goes on to
    /// the end.
    pub newest_first: bool,
}

/// How a platform writes times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Text of RFC 3339.
    Rfc3339,
    /// Seconds since 1970, whole or with a fraction.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMillis,
}

/// Query parameters for the first and the last UTC day, both included, as `YYYY-MM-DD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayFilter {
    /// The parameter for the first day.
    pub from: String,
    /// The parameter for the last day.
    pub to: String,
}

/// How a caller names a conversation by the fan's account id, and how the platform's own id of it
/// is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatParameter {
    /// How the fan's account id is written.
    pub form: IdForm,
    /// Where the conversation is looked for; without it, the fan's id is the conversation's.
    pub lookup: Option<ChatLookup>,
}

/// How an id of a platform is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdForm {
    /// Digits alone.
    Digits,
    /// Letters, digits, `-` and `_`.
    Word,
}

/// A list of conversations in which one is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatLookup {
    /// The dataset of the list, on the same platform.
    pub dataset: DatasetName,
    /// Where a row has the fan's account id.
    pub fan: JsonPointer,
    /// Where a row has the conversation's id.
    pub chat: JsonPointer,
}

/// Why there are no archives of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaArchive {
    /// The platform makes it impossible.
    Unavailable,
    /// It was switched off.
    Disabled,
    /// It was never there.
    NotOffered,
}

/// Where the pages of a dataset are, without the parameters that turn them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetLocation {
    /// The native path, percent-encoded.
    pub path: String,
    /// The raw query; may be empty.
    pub query: String,
}

/// The longest id of a platform, in bytes.
pub const ID_BYTES_MAX: usize = 64;

impl Dataset {
    /// Where its pages are, for a creator with this id on the platform and, if it is of one, this
    /// conversation. Nothing when an id is needed that is unknown or cannot stand in a path.
    pub fn place(&self, own_id: &str, chat: &str) -> Option<DatasetLocation> {
        let filled = |text: &str| -> Option<String> {
            let needs = |mark: &str, id: &str| text.contains(mark) && !is_usable(id);
            let is_filled = !needs(OWN, own_id) && !needs(CHAT, chat);
            // One after the other would fill in a mark that stands in an id.
            let parts = text.split(OWN).map(|part| part.replace(CHAT, chat));
            is_filled.then(|| parts.collect::<Vec<_>>().join(own_id))
        };
        let mut path = String::with_capacity(self.target.len().saturating_add(own_id.len()));
        for (index, segment) in self.target.split('/').enumerate() {
            if index > 0 {
                path.push('/');
            }
            match parameter_of(segment) {
                None => path.push_str(segment),
                Some(TemplateParameter { prefix, name, suffix }) => {
                    let value = filled(self.value_of(name))?;
                    if !is_usable(&value) {
                        return None;
                    }
                    path.push_str(prefix);
                    shorthand::encode(&value, &mut path);
                    path.push_str(suffix);
                }
            }
        }
        let mut query = String::new();
        for (name, value) in self.query.iter().chain(&self.fills) {
            add(&mut query, name, &filled(value)?);
        }
        Some(DatasetLocation { path, query })
    }

    /// The parameters that a caller may or must give, for one that is of a conversation.
    pub const fn needs_chat(&self) -> bool {
        self.chat.is_some()
    }

    /// Whether requests for its pages give this query parameter.
    pub fn sets_parameter(&self, parameter: &str) -> bool {
        let paging = [&self.paging.parameter, &self.paging.size_parameter];
        let days = self.days.iter().flat_map(|days| [&days.from, &days.to]);
        let fixed = self.query.iter().chain(&self.fills).map(|(name, _)| name);
        paging.into_iter().chain(days).chain(fixed).any(|name| name == parameter)
    }

    /// The scopes it needs beyond those granted, in the catalogue's order.
    pub fn missing_scopes(&self, granted: &[&str]) -> Vec<&str> {
        self.scopes.iter().map(String::as_str).filter(|scope| !granted.contains(scope)).collect()
    }

    /// What stands for a parameter of the path; the one of a shorthand is the creator's own id.
    fn value_of(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or(OWN, |(_, value)| value.as_str())
    }
}

/// What stands for the creator's own id and for the conversation's in a catalogue file.
pub(crate) const OWN: &str = "{id}";
pub(crate) const CHAT: &str = "{chat}";

/// Adds a parameter to a raw query, percent-encoded.
pub fn add(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    shorthand::encode(name, query);
    query.push('=');
    shorthand::encode(value, query);
}

/// The parameter of a template's segment, with the literal text around it.
pub(crate) struct TemplateParameter<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) name: &'a str,
    pub(crate) suffix: &'a str,
}

/// The parameter of a segment, if it has one.
pub(crate) fn parameter_of(segment: &str) -> Option<TemplateParameter<'_>> {
    let (prefix, rest) = segment.split_once('{')?;
    let (name, suffix) = rest.split_once('}')?;
    Some(TemplateParameter { prefix, name, suffix })
}

/// Dots alone would climb, and nothing would vanish.
fn is_usable(id: &str) -> bool {
    !matches!(id, "" | "." | "..")
}

impl IdForm {
    /// Whether an id is written so.
    pub fn fits(self, id: &str) -> bool {
        let is_sized = (1..=ID_BYTES_MAX).contains(&id.len());
        is_sized
            && match self {
                Self::Digits => id.bytes().all(|byte| byte.is_ascii_digit()),
                Self::Word => {
                    id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
                }
            }
    }

    /// The word of a catalogue file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Word => "word",
        }
    }
}

impl JsonPointer {
    /// Reads a pointer such as `/pagination/hasMore`; the empty text is the whole value.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self { names: Vec::new() });
        }
        let inner = text.strip_prefix('/').ok_or("a JSON pointer begins with a slash")?;
        let names: Vec<String> = inner.split('/').map(str::to_owned).collect();
        if names.iter().any(|name| name.is_empty() || name.contains('~')) {
            return Err("a name of a JSON pointer is not empty and holds no ~".to_owned());
        }
        if names.len() > POINTER_NAMES_MAX {
            return Err(format!("a JSON pointer has at most {POINTER_NAMES_MAX} names"));
        }
        Ok(Self { names })
    }

    /// The names from the outermost object inwards.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// No platform nests deeper.
const POINTER_NAMES_MAX: usize = 8;

impl std::fmt::Display for JsonPointer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.names.iter().try_for_each(|name| write!(formatter, "/{name}"))
    }
}

impl PagingStyle {
    /// The word of a catalogue file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Offset => "offset",
            Self::Page => "page",
            Self::Cursor => "cursor",
            Self::BeforeId => "before_id",
        }
    }
}

impl TimeUnit {
    /// The word of a catalogue file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rfc3339 => "rfc3339",
            Self::UnixSeconds => "unix_seconds",
            Self::UnixMillis => "unix_millis",
        }
    }
}

impl MediaArchive {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Disabled => "disabled",
            Self::NotOffered => "not_offered",
        }
    }
}
