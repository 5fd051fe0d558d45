//! Path templates: `chats/{chat_id}/messages`, split into segments.
//!
//! A segment is a literal or one parameter, which may have literal text before and after it
//! (`{id}.json`, `@{name}`, `{thing}:cancel`). The last parameter may span several segments,
//! written `{name*}`. A slash at the end is part of the template.

use std::borrow::Cow;

/// A template in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathTemplate {
    pub(crate) segments: Vec<TemplateSegment>,
}

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TemplateSegment {
    /// These bytes; empty only at the end, for a trailing slash.
    Literal(String),
    /// Any one segment that is not empty.
    Parameter(String),
    /// A segment with this text before and after the value, which is not empty; one of the two
    /// texts may be.
    Affixed { prefix: String, name: String, suffix: String },
    /// All that is left: one or more segments, none of them empty.
    Rest(String),
}

/// Longer templates are refused: no platform has them, and the matcher's depth is bounded by it.
const SEGMENTS_MAX: usize = 24;

impl PathTemplate {
    /// Reads a template. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.starts_with('/') {
            return Err("a template is a path without a slash at its beginning".to_owned());
        }
        let segments: Vec<TemplateSegment> =
            text.split('/').map(segment).collect::<Result<_, _>>()?;
        if segments.len() > SEGMENTS_MAX {
            return Err(format!("a template has at most {SEGMENTS_MAX} segments"));
        }
        let Some((_, before_last)) = segments.split_last() else {
            return Err("a template has at least one segment".to_owned());
        };
        for segment in before_last {
            match segment {
                TemplateSegment::Literal(literal) if literal.is_empty() => {
                    return Err("a segment is empty".to_owned());
                }
                TemplateSegment::Rest(name) => {
                    return Err(format!("{{{name}*}} must be the last segment"));
                }
                TemplateSegment::Literal(_)
                | TemplateSegment::Parameter(_)
                | TemplateSegment::Affixed { .. } => {}
            }
        }
        let template = Self { segments };
        if let Some(name) = template.repeated_name() {
            return Err(format!("the parameter {name} appears twice"));
        }
        Ok(template)
    }

    /// The names of the parameters, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            TemplateSegment::Literal(_) => None,
            TemplateSegment::Parameter(name)
            | TemplateSegment::Affixed { name, .. }
            | TemplateSegment::Rest(name) => Some(name.as_str()),
        })
    }

    /// Whether its last parameter spans several segments.
    pub(crate) fn spans(&self) -> bool {
        matches!(self.segments.last(), Some(TemplateSegment::Rest(_)))
    }

    /// Lets the last segment's parameter span several segments, if it is one of these.
    pub(crate) fn span_last(&mut self, names: &[String]) {
        if let Some(last) = self.segments.last_mut()
            && let TemplateSegment::Parameter(name) = last
            && names.contains(name)
        {
            *last = TemplateSegment::Rest(std::mem::take(name));
        }
    }

    /// Whether it has a parameter of this name that is one segment.
    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        self.segments.iter().any(|segment| match segment {
            TemplateSegment::Parameter(other) | TemplateSegment::Affixed { name: other, .. } => {
                other == name
            }
            TemplateSegment::Literal(_) | TemplateSegment::Rest(_) => false,
        })
    }

    /// The template without the names of its parameters: two templates of one shape match the same
    /// paths.
    pub(crate) fn shape(&self) -> String {
        let words: Vec<Cow<'_, str>> = self
            .segments
            .iter()
            .map(|segment| match segment {
                TemplateSegment::Literal(text) => Cow::Borrowed(text.as_str()),
                TemplateSegment::Parameter(_) => Cow::Borrowed("{}"),
                TemplateSegment::Affixed { prefix, suffix, .. } => {
                    Cow::Owned(format!("{prefix}{{}}{suffix}"))
                }
                TemplateSegment::Rest(_) => Cow::Borrowed("{*}"),
            })
            .collect();
        words.join("/")
    }

    /// The template as people read it, without the mark of a parameter that spans segments.
    pub(crate) fn readable(&self) -> String {
        self.written(false)
    }

    /// The template as a catalogue file has it.
    pub(crate) fn as_in_file(&self) -> String {
        self.written(true)
    }

    fn written(&self, marks: bool) -> String {
        let words: Vec<String> = self
            .segments
            .iter()
            .map(|segment| match segment {
                TemplateSegment::Literal(text) => text.clone(),
                TemplateSegment::Affixed { prefix, name, suffix } => {
                    format!("{prefix}{{{name}}}{suffix}")
                }
                TemplateSegment::Rest(name) if marks => format!("{{{name}*}}"),
                TemplateSegment::Parameter(name) | TemplateSegment::Rest(name) => {
                    format!("{{{name}}}")
                }
            })
            .collect();
        words.join("/")
    }

    fn repeated_name(&self) -> Option<&str> {
        let mut seen = Vec::new();
        for name in self.names() {
            if seen.contains(&name) {
                return Some(name);
            }
            seen.push(name);
        }
        None
    }
}

fn segment(text: &str) -> Result<TemplateSegment, String> {
    let Some((prefix, inner, suffix)) = parts(text)? else { return literal(text) };
    let (name, spans) = inner.strip_suffix('*').map_or((inner, false), |name| (name, true));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(format!("{{{inner}}} is not a parameter: use letters, digits, _ - ."));
    }
    let name = name.to_owned();
    match (prefix.is_empty() && suffix.is_empty(), spans) {
        (true, true) => Ok(TemplateSegment::Rest(name)),
        (true, false) => Ok(TemplateSegment::Parameter(name)),
        (false, true) => {
            Err(format!("{{{name}*}} must be a whole segment: it has text before or after it"))
        }
        (false, false) => {
            let (prefix, suffix) = (prefix.to_owned(), suffix.to_owned());
            Ok(TemplateSegment::Affixed { prefix, name, suffix })
        }
    }
}

/// The text before a segment's parameter, the parameter without its braces, and the text after it;
/// nothing where the segment has no braces.
fn parts(text: &str) -> Result<Option<(&str, &str, &str)>, String> {
    let Some((prefix, rest)) = text.split_once('{') else { return Ok(None) };
    let Some((inner, suffix)) = rest.split_once('}') else {
        return Err(format!("{text:?} opens a parameter that it does not close"));
    };
    if suffix.contains('{') {
        return Err(format!("{text:?} has two parameters in one segment: at most one is matched"));
    }
    if !prefix.bytes().chain(suffix.bytes()).all(is_path_byte) {
        return Err(format!("{text:?} is neither a literal segment nor a parameter"));
    }
    Ok(Some((prefix, inner, suffix)))
}

fn literal(text: &str) -> Result<TemplateSegment, String> {
    if text == "." || text == ".." {
        return Err("a segment of dots is not a path that can be sent".to_owned());
    }
    if !text.bytes().all(is_path_byte) {
        return Err(format!("{text:?} is neither a literal segment nor a parameter"));
    }
    Ok(TemplateSegment::Literal(text.to_owned()))
}

/// The bytes that RFC 3986 allows in a segment, the percent sign included.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_written_as_it_was_read() {
        for text in [
            "me",
            "chats/{chat_id}/messages",
            "user/{selfId}/chat/mass-message/",
            "a/{b*}",
            "users/@{name}/posts/{id}.json",
            "jobs/{job}:cancel",
        ] {
            assert_eq!(PathTemplate::parse(text).unwrap().as_in_file(), text);
        }
        assert_eq!(PathTemplate::parse("a/{b*}").unwrap().readable(), "a/{b}");
    }

    #[test]
    fn templates_that_differ_in_names_only_have_one_shape() {
        let shape = |text| PathTemplate::parse(text).unwrap().shape();

        assert_eq!(shape("user/{a}/x"), shape("user/{b}/x"));
        assert_ne!(shape("user/{a}/x"), shape("user/{a}/x/"));
        assert_ne!(shape("user/{a}"), shape("user/{a*}"));
        assert_eq!(shape("user/{a}.json"), shape("user/{b}.json"));
        assert_ne!(shape("user/{a}"), shape("user/{a}.json"));
    }

    #[test]
    fn what_no_path_can_match_is_refused() {
        for text in [
            "",
            "/",
            "/me",
            "a//b",
            "{a*}/b",
            "{a}/{a}",
            "{}",
            "{*}",
            "a{}",
            "{a}{b}",
            "{a}...{b}",
            "{a*}.json",
            "v{a*}",
            "{a}?",
            "{a} x",
            "{a}}",
            "{a b}",
            "a b",
            "a?b",
            "a#b",
            "a\\b",
            ".",
            "a/../b",
            "ä",
            "a\nb",
            "{a",
            "a}",
            "a}{b}",
        ] {
            assert!(PathTemplate::parse(text).is_err(), "{text:?}");
        }
        assert!(PathTemplate::parse(&"a/".repeat(SEGMENTS_MAX)).is_err());
    }
}
