//! Reads layers of text into a configuration. All unknown names and unreadable values are
//! collected, not only the first: each mistake is reported and replaced by its default, and reading
//! continues. A message never repeats a value, which may be a secret, unless the value is one of
//! several words.

use config::{ConfigError, Value, ValueKind};
use serde_path_to_error::Segment;

use super::Config;
use super::origins::LineStarts;
use super::problem::{ConfigProblem, unknown};

/// The most mistakes that are reported for one configuration.
const MISTAKES_MAX: usize = 100;

/// A step of a path in the tree of values.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathStep {
    Key(String),
    Index(usize),
}

/// Reads the configuration; `defaults` must be readable. Returns all mistakes, and the
/// configuration with each mistaken value removed or replaced by its default, so that it can be
/// checked further.
pub(super) fn read(mut tree: Value, defaults: &Value) -> (Option<Config>, Vec<ConfigProblem>) {
    let mut problems: Vec<ConfigProblem> = Vec::new();
    mend_kinds(&mut tree, defaults, &mut Vec::new(), &mut problems);
    problems.truncate(MISTAKES_MAX);
    for _ in 0..MISTAKES_MAX {
        let error = match serde_path_to_error::deserialize::<_, Config>(tree.clone()) {
            Ok(config) => return (Some(config), problems),
            Err(error) => error,
        };
        let mut place = steps(error.path());
        let mistake = ReadMistake::of(error.into_inner());
        if let ReadMistake::Missing(field) = &mistake {
            place.push(PathStep::Key(field.clone()));
        }
        let message = mistake.message(default_of(defaults, &place), value_at(&mut tree, &place));
        let problem = ConfigProblem::new(dotted(&place), message);
        let mended = match mistake {
            ReadMistake::Unknown { .. } => remove(&mut tree, &place),
            ReadMistake::Missing(_)
            | ReadMistake::OtherType(_)
            | ReadMistake::UnreadableConfig(_) => default_of(defaults, &place)
                .is_some_and(|default| put(&mut tree, &place, default.clone())),
        };
        // A second mistake at the same path means that its default is not accepted there either.
        let is_new = problems.iter().all(|known| known.key != problem.key);
        problems.push(problem);
        if !mended || !is_new {
            break;
        }
    }
    (None, problems)
}

/// Replaces values by their defaults that the library would turn into another kind in silence: 1.5
/// into 2, 5 into true, 1e5 into the text 100000. What environment variables set is text until its
/// field reads it.
fn mend_kinds(
    given: &mut Value,
    default: &Value,
    place: &mut Vec<PathStep>,
    problems: &mut Vec<ConfigProblem>,
) {
    match (&mut given.kind, &default.kind) {
        (ValueKind::Table(table), ValueKind::Table(defaults)) => {
            for (key, value) in table.iter_mut() {
                // An envelope is a word or a table, and says so itself.
                let usual = defaults.get(key).filter(|_| key != "envelope");
                let Some(usual) = usual else { continue };
                place.push(PathStep::Key(key.clone()));
                mend_kinds(value, usual, place, problems);
                place.pop();
            }
        }
        (ValueKind::Array(values), ValueKind::Array(defaults)) => {
            let Some(usual) = defaults.first() else { return };
            for (index, value) in values.iter_mut().enumerate() {
                place.push(PathStep::Index(index));
                mend_kinds(value, usual, place, problems);
                place.pop();
            }
        }
        (kind, wanted) => {
            if let Some(message) = other_kind(kind, wanted) {
                problems.push(ConfigProblem::new(dotted(place), message));
                *given = default.clone();
            }
        }
    }
}

/// What a value of a kind that would be changed in silence must be.
fn other_kind(given: &ValueKind, default: &ValueKind) -> Option<String> {
    let (is_number, is_truth) = (
        is_whole(given) || matches!(given, ValueKind::Float(_)),
        matches!(given, ValueKind::Boolean(_)),
    );
    let is_other = match default {
        ValueKind::Boolean(_) => is_number,
        ValueKind::String(_) => is_number || is_truth,
        ValueKind::Float(_) => is_truth,
        kind if is_whole(kind) => is_truth || matches!(given, ValueKind::Float(_)),
        _ => false,
    };
    let number = "must be a whole number";
    let wanted =
        || if is_whole(default) { number.to_owned() } else { wanted("", Some(default), None) };
    is_other.then(wanted)
}

/// What is wrong at one path.
enum ReadMistake {
    /// The name is not one of the known ones.
    Unknown { name: String, known: Vec<String> },
    /// A required field is missing.
    Missing(String),
    /// The value has the wrong type. What was expected, in the words of the library.
    OtherType(String),
    /// The value has the right type but is not accepted.
    UnreadableConfig(String),
}

impl ReadMistake {
    fn of(error: ConfigError) -> Self {
        match error {
            ConfigError::At { error, .. } => Self::of(*error),
            ConfigError::NotFound(field) => {
                // The last segment only: the path before it is known.
                let name = field.rsplit(['.', ']']).next().unwrap_or_default();
                Self::Missing(name.to_owned())
            }
            ConfigError::Type { expected, .. } => Self::OtherType(expected.to_owned()),
            other => {
                let text = other.to_string();
                if let Some((_, word)) = text.split_once(" does not have variant constructor ") {
                    let what = "which is not one of the words listed in config/default.toml";
                    return Self::UnreadableConfig(format!("is \"{word}\", {what}"));
                }
                let Some(rest) = text.strip_prefix("unknown field ") else {
                    return Self::of_text(text);
                };
                // serde's message: unknown field `a`, expected one of `b`, `c`
                let mut names = rest.split('`').skip(1).step_by(2).map(str::to_owned);
                let name = names.next().unwrap_or_default();
                Self::Unknown { name, known: names.collect() }
            }
        }
    }

    /// Translates the message of a library. Our own fields say what they require.
    fn of_text(text: String) -> Self {
        if text.starts_with("must ") {
            return Self::UnreadableConfig(text);
        }
        // Words of our own that are none of those expected.
        if let Some(expected) = text.strip_prefix("expected ") {
            return Self::UnreadableConfig(format!("must be {expected}"));
        }
        if text.contains("socket address") {
            let message = "must be an address with a port, such as 127.0.0.1:8080";
            return Self::UnreadableConfig(message.to_owned());
        }
        // serde's message: invalid type: string "x", expected struct X for key `a.b`
        let expected = text.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
        let expected = expected.split(" for key ").next().unwrap_or_default();
        Self::OtherType(expected.to_owned())
    }

    /// The message, given the default value and the given value.
    fn message(&self, default: Option<&Value>, given: Option<&mut Value>) -> String {
        match self {
            Self::Unknown { name, known } => unknown(name, known.iter().map(String::as_str)),
            Self::Missing(_) => "must be given".to_owned(),
            Self::OtherType(expected) => wanted(expected, default.map(|value| &value.kind), given),
            Self::UnreadableConfig(what) => what.clone(),
        }
    }
}

/// What a value must be, judging by what was expected and by its default.
fn wanted(expected: &str, default: Option<&ValueKind>, given: Option<&mut Value>) -> String {
    let wanted = match default {
        _ if expected == "a floating point" => "must be a number",
        _ if expected == "a sequence" => wanted_list(default),
        _ if expected.starts_with("struct ") => "must be a table with keys of its own",
        _ if expected == "true, false or a table" => "must be true, false or a table",
        Some(ValueKind::Boolean(_)) => "must be true or false",
        Some(kind) if is_whole(kind) => return wanted_number(given),
        Some(ValueKind::Float(_)) => "must be a number",
        Some(ValueKind::Array(_)) => wanted_list(default),
        Some(ValueKind::Table(_)) => "must be a table with keys of its own",
        Some(ValueKind::String(_)) => "must be a text or one of the listed words",
        Some(_) | None => "cannot be used",
    };
    format!("{wanted}; config/default.toml has an example")
}

/// What a list must be, judging by what its default holds.
fn wanted_list(default: Option<&ValueKind>) -> &'static str {
    let Some(ValueKind::Array(values)) = default else { return "must be a list in [ ]" };
    match values.first().map(|value| &value.kind) {
        Some(ValueKind::Table(_)) => "must be a list of tables",
        Some(ValueKind::String(_)) => "must be a list, such as [\"a\", \"b\"]",
        Some(_) | None => "must be a list in [ ]",
    }
}

const fn is_whole(kind: &ValueKind) -> bool {
    matches!(kind, ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_))
}

/// The message for a number of the right type outside the range that can be counted.
fn wanted_number(given: Option<&mut Value>) -> String {
    let is_number = match given.map(|value| &value.kind) {
        Some(ValueKind::String(text)) => {
            let digits = text.trim_start_matches(['-', '+']);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
        }
        Some(kind) => is_whole(kind),
        None => false,
    };
    let wanted = if is_number { "is negative or too large" } else { "must be a whole number" };
    wanted.to_owned()
}

/// Parses a file's text as TOML. A whole number that is too large stays a text, so that its field
/// refuses it by name. The error says where and what, and not what stands there: the rest of the
/// line may be a secret.
pub(super) fn parse(mut text: String) -> Result<toml::Table, String> {
    for _ in 0..MISTAKES_MAX {
        let error = match text.parse::<toml::Table>() {
            Ok(table) => return Ok(table),
            Err(error) => error,
        };
        let digits = error.span().filter(|span| {
            let token = text.get(span.clone()).unwrap_or_default();
            let digits = token.trim_start_matches(['-', '+']);
            digits.len() > 18 && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
        });
        let Some(span) = digits else { return Err(syntax(&text, &error)) };
        let quoted = format!("\"{}\"", text.get(span.clone()).unwrap_or_default());
        text.replace_range(span, &quoted);
    }
    text.parse().map_err(|error| syntax(&text, &error))
}

/// What is wrong with a text that is not TOML. Names of keys are shown, values are not.
fn syntax(text: &str, error: &toml::de::Error) -> String {
    let Some(span) = error.span() else { return error.message().to_owned() };
    let line = LineStarts::of(text).line_of(span.start);
    let before = text.get(..span.start).unwrap_or_default();
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    let key = text.get(span).filter(|_| error.message() == "duplicate key");
    let key = key.map(|key| format!(" `{key}`")).unwrap_or_default();
    format!("line {line}, column {column}: {}{key}", error.message())
}

fn steps(path: &serde_path_to_error::Path) -> Vec<PathStep> {
    let step = |segment: &Segment| match segment {
        Segment::Map { key } => Some(PathStep::Key(key.clone())),
        Segment::Seq { index } => Some(PathStep::Index(*index)),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().map_while(step).collect()
}

/// The path as problems name it: `packs[1].name`.
fn dotted(steps: &[PathStep]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            PathStep::Key(key) if text.is_empty() => text.clone_from(key),
            PathStep::Key(key) => text = format!("{text}.{key}"),
            PathStep::Index(index) => text = format!("{text}[{index}]"),
        }
    }
    text
}

/// The default at a path. The first element of a list stands for all of them.
fn default_of<'a>(defaults: &'a Value, place: &[PathStep]) -> Option<&'a Value> {
    let mut value = defaults;
    for step in place {
        value = match (&value.kind, step) {
            (ValueKind::Table(table), PathStep::Key(key)) => table.get(key)?,
            (ValueKind::Array(values), PathStep::Index(_)) => values.first()?,
            _ => return None,
        };
    }
    Some(value)
}

/// The value at a path, mutable.
fn value_at<'a>(tree: &'a mut Value, place: &[PathStep]) -> Option<&'a mut Value> {
    let mut value = tree;
    for step in place {
        value = match (&mut value.kind, step) {
            (ValueKind::Table(table), PathStep::Key(key)) => table.get_mut(key)?,
            (ValueKind::Array(values), PathStep::Index(index)) => values.get_mut(*index)?,
            _ => return None,
        };
    }
    Some(value)
}

/// Removes a key from its table; returns whether it was there.
fn remove(tree: &mut Value, place: &[PathStep]) -> bool {
    let Some((PathStep::Key(key), above)) = place.split_last() else { return false };
    match value_at(tree, above).map(|value| &mut value.kind) {
        Some(ValueKind::Table(table)) => table.remove(key).is_some(),
        _ => false,
    }
}

/// Puts a value at a path; returns whether the path exists.
fn put(tree: &mut Value, place: &[PathStep], value: Value) -> bool {
    let Some((last, above)) = place.split_last() else { return false };
    match (value_at(tree, above).map(|above| &mut above.kind), last) {
        (Some(ValueKind::Table(table)), PathStep::Key(key)) => {
            table.insert(key.clone(), value);
            true
        }
        (Some(ValueKind::Array(values)), PathStep::Index(index)) => {
            values.get_mut(*index).is_some_and(|old| {
                *old = value;
                true
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::UnreadableConfig;
    use super::*;

    fn problems(toml: &str) -> Vec<String> {
        match Config::from_toml(toml) {
            Err(UnreadableConfig::Values(problems)) => {
                problems.iter().map(ToString::to_string).collect()
            }
            other => panic!("{toml}: {other:?}"),
        }
    }

    #[test]
    fn every_mistake_is_reported_with_a_suggestion() {
        let toml = "
            [http]
            listn = \"127.0.0.1:1\"
            cores = \"many\"
            unlisted_routes = \"drop\"
            [http.limits]
            headers_maxx = 1
            [colour]
            sky = \"blue\"
            [credits]
            read = -1
            [platforms.platform_alpha]
            headers = [{ name = \"A\", value = \"b\" }, { nam = \"C\", value = \"d\" }]
            [[packs]]
            id = \"small\"
            name = \"Small\"
            price_cents = \"cheap\"";

        let found = problems(toml);

        let has = |start: &str, part: &str| {
            let is_it = |problem: &&String| problem.starts_with(start) && problem.contains(part);
            assert_eq!(found.iter().filter(is_it).count(), 1, "{start} {part}: {found:#?}");
        };
        has("http.listn: ", "is unknown; did you mean `listen`?");
        has("http.cores: ", "must be a whole number");
        has("http.unlisted_routes: ", "drop");
        has("http.limits.headers_maxx: ", "did you mean `headers_max`?");
        has("colour: ", "is unknown");
        has("credits.read: ", "must be 1 to 1,000,000");
        has("platforms.platform_alpha.headers[1].nam: ", "did you mean `name`?");
        has("platforms.platform_alpha.headers[1].name: ", "must be given");
        has("packs[0].credits: ", "must be given");
        has("packs[0].price_cents: ", "must be");
        assert_eq!(found.len(), 10, "{found:#?}");
    }

    #[test]
    fn a_name_without_a_similar_one_lists_all_known_names() {
        assert_eq!(
            problems("[jobs]\ncolour = 1"),
            ["jobs.colour: is unknown; expected one of `workers`, `poll_ms`"]
        );
    }

    #[test]
    fn messages_say_what_a_value_must_be_and_never_repeat_it() {
        let toml = "
            jobs = 5
            [http]
            listen = \"nonsense\"
            allowed_hosts = \"hunter2\"
            unlisted_routes = [1]
            [http.limits]
            head_bytes_max = -1
            upload_bytes_max = [1]
            [credits]
            read = \"99999999999999999999\"
            [secrets]
            master_keys = \"hunter2\"
            [database]
            migrate_at_start = \"hunter2\"
            [platforms.platform_alpha]
            headers = { x = 1 }";

        let mut found = problems(toml);

        found.sort();
        let shown = "; config/default.toml has an example";
        let number = "is negative or too large";
        assert_eq!(
            found,
            [
                format!("credits.read: {number}"),
                format!("database.migrate_at_start: must be true or false{shown}"),
                format!("http.allowed_hosts: must be a list in [ ]{shown}"),
                format!("http.limits.head_bytes_max: {number}"),
                "http.limits.upload_bytes_max: must be a whole number".to_owned(),
                "http.listen: must be an address with a port, such as 127.0.0.1:8080".to_owned(),
                format!("http.unlisted_routes: must be a text or one of the listed words{shown}"),
                format!("jobs: must be a table with keys of its own{shown}"),
                format!("platforms.platform_alpha.headers: must be a list of tables{shown}"),
                format!("secrets.master_keys: must be a list in [ ]{shown}"),
            ]
        );
    }

    #[test]
    fn a_number_that_is_too_large_does_not_hide_other_problems() {
        let text = "
            [http.limits]
            headers_max = 99999999999999999999
            head_bytes_max = -99_999_999_999_999_999_999
            [credits]
            read = -1";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        std::fs::write(&path, text).unwrap();

        let Err(UnreadableConfig::Values(found)) = Config::load_with(Some(&path), []) else {
            panic!("expected to be refused with problems");
        };

        let mut keys: Vec<&str> = found.iter().map(|problem| problem.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["credits.read", "http.limits.head_bytes_max", "http.limits.headers_max"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_refused_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (path, said) = (folder.path().join("gateway.toml"), |path: &std::path::Path| {
            Config::load_with(Some(path), []).unwrap_err().to_string()
        });
        assert!(said(&path).contains("there is no such file"), "{}", said(&path));
        assert!(said(folder.path()).contains("it is a folder"), "{}", said(folder.path()));
        std::fs::write(&path, b"[http]\nlisten = \"\xff\"").unwrap();
        assert!(said(&path).contains("it is not UTF-8"), "{}", said(&path));
        std::fs::write(&path, "[http").unwrap();
        assert!(said(&path).contains("line 1"), "{}", said(&path));
    }
}
