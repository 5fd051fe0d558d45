//! Datasets in catalogue files: their shape in TOML, checked, read and written.

use domain::dataset::DatasetName;
use domain::method::Method;
use serde::Deserialize;

use crate::column_file::{self, ColumnText};
use crate::dataset::{
    CHAT, ChatLookup, ChatParameter, Dataset, DayFilter, IdForm, JsonPointer, MediaArchive, OWN,
    PagingRules, PagingStyle, TemplateParameter, TimeField, TimeUnit, parameter_of,
};
use crate::file::{PairText, pairs};
use crate::route::Route;
use crate::toml_text::{line, pairs_text, quoted};

/// More rows than this are not asked for at once.
const SIZE_MAX: u32 = 10_000;

/// One `[[datasets]]` entry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DatasetText {
    name: DatasetName,
    #[serde(default)]
    description: String,
    /// The template of a GET route of this catalogue.
    route: String,
    #[serde(default)]
    path: Vec<PairText>,
    #[serde(default)]
    query: Vec<PairText>,
    paging: PagingText,
    /// Where the rows are; empty: the page is the list.
    rows: String,
    id: String,
    time: TimeText,
    days: Option<DaysText>,
    chat: Option<ChatText>,
    /// None: files have the columns of the rows that come.
    #[serde(default)]
    columns: Vec<ColumnText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PagingText {
    style: StyleText,
    parameter: String,
    size_parameter: String,
    size: u32,
    more: Option<String>,
    next: Option<String>,
    total: Option<String>,
    #[serde(default)]
    empty_body: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StyleText {
    Offset,
    Page,
    Cursor,
    BeforeId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeText {
    field: String,
    unit: UnitText,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    newest_first: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UnitText {
    Rfc3339,
    UnixSeconds,
    UnixMillis,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DaysText {
    from: String,
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatText {
    form: FormText,
    lookup: Option<LookupText>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FormText {
    Digits,
    Word,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LookupText {
    dataset: DatasetName,
    fan: String,
    chat: String,
}

/// What a file says of archives of media.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MediaArchiveText {
    Unavailable,
    Disabled,
    NotOffered,
}

impl MediaArchiveText {
    pub(crate) const fn value(self) -> MediaArchive {
        match self {
            Self::Unavailable => MediaArchive::Unavailable,
            Self::Disabled => MediaArchive::Disabled,
            Self::NotOffered => MediaArchive::NotOffered,
        }
    }
}

impl DatasetText {
    /// Checks the entry by itself; what it needs of the catalogue's routes is put in by
    /// [`resolve`].
    pub(crate) fn check(self) -> Result<Dataset, String> {
        let name = self.name;
        let read = self.read();
        read.map_err(|problem| format!("dataset {name}: {problem}"))
    }

    fn read(self) -> Result<Dataset, String> {
        let chat = self.chat.map(ChatText::read).transpose()?;
        if chat.is_some() != (self.name == DatasetName::ChatMessages) {
            return Err("chat_messages has `chat`, and no other dataset".to_owned());
        }
        let id = JsonPointer::parse(&self.id)?;
        if id.names().is_empty() {
            return Err("id is a field of the row".to_owned());
        }
        let time = TimeField {
            field: JsonPointer::parse(&self.time.field)?,
            unit: self.time.unit.value(),
            optional: self.time.optional,
            newest_first: self.time.newest_first,
        };
        let columns = column_file::read(self.columns, &id, &time)?;
        Ok(Dataset {
            name: self.name,
            description: self.description,
            route: self.route,
            path: pairs(self.path),
            query: pairs(self.query),
            paging: self.paging.read()?,
            rows: JsonPointer::parse(&self.rows)?,
            id,
            time,
            days: self.days.map(|days| DayFilter { from: days.from, to: days.to }),
            chat,
            columns,
            scopes: Vec::new(),
            target: String::new(),
            fills: Vec::new(),
        })
    }
}

impl PagingText {
    fn read(self) -> Result<PagingRules, String> {
        let pointer = |text: Option<String>| text.as_deref().map(JsonPointer::parse).transpose();
        let style = match self.style {
            StyleText::Offset => PagingStyle::Offset,
            StyleText::Page => PagingStyle::Page,
            StyleText::Cursor => PagingStyle::Cursor,
            StyleText::BeforeId => PagingStyle::BeforeId,
        };
        if !(1..=SIZE_MAX).contains(&self.size) {
            return Err(format!("paging.size is 1 to {SIZE_MAX}"));
        }
        if self.parameter.is_empty() || self.size_parameter.is_empty() {
            return Err("paging names its parameters".to_owned());
        }
        if self.next.is_some() != (style == PagingStyle::Cursor) {
            return Err("paging.next belongs to the style cursor, which needs it".to_owned());
        }
        Ok(PagingRules {
            style,
            parameter: self.parameter,
            size_parameter: self.size_parameter,
            size: self.size,
            more: pointer(self.more)?,
            next: pointer(self.next)?,
            total: pointer(self.total)?,
            empty_body: self.empty_body,
        })
    }
}

impl ChatText {
    fn read(self) -> Result<ChatParameter, String> {
        let form = match self.form {
            FormText::Digits => IdForm::Digits,
            FormText::Word => IdForm::Word,
        };
        let lookup = self.lookup.map(|lookup| {
            Ok::<_, String>(ChatLookup {
                dataset: lookup.dataset,
                fan: JsonPointer::parse(&lookup.fan)?,
                chat: JsonPointer::parse(&lookup.chat)?,
            })
        });
        Ok(ChatParameter { form, lookup: lookup.transpose()? })
    }
}

impl UnitText {
    const fn value(self) -> TimeUnit {
        match self {
            Self::Rfc3339 => TimeUnit::Rfc3339,
            Self::UnixSeconds => TimeUnit::UnixSeconds,
            Self::UnixMillis => TimeUnit::UnixMillis,
        }
    }
}

/// Ties datasets to the routes of their catalogue: where their pages are, and the scopes these
/// need. A dataset of a conversation needs the scopes of the list it is looked for in, too.
pub(crate) fn resolve(datasets: &mut [Dataset], routes: &[&Route]) -> Result<(), String> {
    for index in 0..datasets.len() {
        let Some(dataset) = datasets.get(index) else { continue };
        let name = dataset.name;
        let mut resolved = dataset.clone();
        bind(&mut resolved, routes).map_err(|problem| format!("dataset {name}: {problem}"))?;
        if let Some(lookup) = dataset.chat.as_ref().and_then(|chat| chat.lookup.as_ref()) {
            let list = datasets.iter().find(|other| other.name == lookup.dataset);
            let list = list.filter(|list| list.chat.is_none());
            let list =
                list.ok_or_else(|| format!("dataset {name}: there is no list {}", lookup.dataset))?;
            let route = route_of(list, routes)
                .map_err(|problem| format!("dataset {}: {problem}", list.name))?;
            for scope in &route.scopes {
                if !resolved.scopes.contains(scope) {
                    resolved.scopes.push(scope.clone());
                }
            }
        }
        if let Some(place) = datasets.get_mut(index) {
            *place = resolved;
        }
    }
    Ok(())
}

/// The datasets that can be read through these routes. One of a conversation needs the list in
/// which it is looked for.
pub(crate) fn readable(datasets: Vec<Dataset>, routes: &[&Route]) -> Vec<Dataset> {
    let is_bound = |dataset: &Dataset| bind(&mut dataset.clone(), routes).is_ok();
    let bound: Vec<Dataset> = datasets.into_iter().filter(is_bound).collect();
    let names: Vec<DatasetName> = bound.iter().map(|dataset| dataset.name).collect();
    let has_list = |dataset: &Dataset| {
        let lookup = dataset.chat.as_ref().and_then(|chat| chat.lookup.as_ref());
        lookup.is_none_or(|lookup| names.contains(&lookup.dataset))
    };
    bound.into_iter().filter(has_list).collect()
}

fn route_of<'a>(dataset: &Dataset, routes: &[&'a Route]) -> Result<&'a Route, String> {
    let is_it = |route: &&&Route| route.method == Method::Get && route.template == dataset.route;
    let found = routes.iter().find(is_it);
    found.copied().ok_or_else(|| format!("there is no route GET {}", dataset.route))
}

fn bind(dataset: &mut Dataset, routes: &[&Route]) -> Result<(), String> {
    let route = route_of(dataset, routes)?;
    let (target, fills) = match route.shorthand() {
        Some(shorthand) => (shorthand.target.clone(), shorthand.fills.clone()),
        None => (route.template.clone(), Vec::new()),
    };
    let is_shorthand = route.shorthand().is_some();
    for segment in target.split('/') {
        let Some(TemplateParameter { name, .. }) = parameter_of(segment) else { continue };
        let is_given = dataset.path.iter().any(|(known, _)| known == name);
        let is_filled = is_shorthand && name == "id";
        if !is_given && !is_filled {
            return Err(format!("path lacks {name}"));
        }
    }
    let parameters = target.split('/').filter_map(parameter_of);
    let names: Vec<&str> = parameters.map(|parameter| parameter.name).collect();
    if let Some((name, _)) = dataset.path.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        return Err(format!("the route has no {name} in its path"));
    }
    let values = dataset.path.iter().chain(&dataset.query);
    let uses_chat = values.clone().any(|(_, value)| value.contains(CHAT));
    if uses_chat != dataset.chat.is_some() {
        return Err(format!("{CHAT} belongs to chat_messages, which needs it"));
    }
    for (_, value) in values {
        let plain = value.replace(OWN, "").replace(CHAT, "");
        if plain.contains(['{', '}']) {
            return Err(format!("{value:?} holds braces other than {OWN} and {CHAT}"));
        }
    }
    dataset.scopes.clone_from(&route.scopes);
    dataset.target = target;
    dataset.fills = fills;
    Ok(())
}

/// Writes an entry that reads back as the same dataset.
pub(crate) fn write(text: &mut String, dataset: &Dataset) {
    text.push_str("[[datasets]]\n");
    line(text, "name", &quoted(dataset.name.as_str()));
    if !dataset.description.is_empty() {
        line(text, "description", &quoted(&dataset.description));
    }
    line(text, "route", &quoted(&dataset.route));
    for (key, pairs) in [("path", &dataset.path), ("query", &dataset.query)] {
        if !pairs.is_empty() {
            line(text, key, &pairs_text(pairs));
        }
    }
    line(text, "rows", &quoted(&dataset.rows.to_string()));
    line(text, "id", &quoted(&dataset.id.to_string()));
    let TimeField { field, unit, optional, newest_first } = &dataset.time;
    let (field, unit) = (quoted(&field.to_string()), unit.as_str());
    let order = format!("optional = {optional}, newest_first = {newest_first}");
    line(text, "time", &format!("{{ field = {field}, unit = \"{unit}\", {order} }}"));
    line(text, "paging", &paging_text(&dataset.paging));
    if let Some(DayFilter { from, to }) = &dataset.days {
        line(text, "days", &format!("{{ from = {}, to = {} }}", quoted(from), quoted(to)));
    }
    if let Some(ChatParameter { form, lookup }) = &dataset.chat {
        let lookup = lookup.as_ref().map(|lookup| {
            format!(
                ", lookup = {{ dataset = \"{}\", fan = {}, chat = {} }}",
                lookup.dataset,
                quoted(&lookup.fan.to_string()),
                quoted(&lookup.chat.to_string())
            )
        });
        let lookup = lookup.unwrap_or_default();
        line(text, "chat", &format!("{{ form = \"{}\"{lookup} }}", form.as_str()));
    }
    if !dataset.columns.is_empty() {
        line(text, "columns", &column_file::text(&dataset.columns));
    }
}

fn paging_text(paging: &PagingRules) -> String {
    let mut text = format!(
        "{{ style = \"{}\", parameter = {}, size_parameter = {}, size = {}",
        paging.style.as_str(),
        quoted(&paging.parameter),
        quoted(&paging.size_parameter),
        paging.size
    );
    for (key, pointer) in [("more", &paging.more), ("next", &paging.next), ("total", &paging.total)]
    {
        if let Some(pointer) = pointer {
            text.push_str(", ");
            text.push_str(key);
            text.push_str(" = ");
            text.push_str(&quoted(&pointer.to_string()));
        }
    }
    if paging.empty_body {
        text.push_str(", empty_body = true");
    }
    text.push_str(" }");
    text
}
