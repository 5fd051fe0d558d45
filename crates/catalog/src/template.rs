//! Path templates: `chats/{chat_id}/messages`, split into segments.
//!
//! A segment is a literal or one parameter, never a mix. The last parameter may span several segments, written
//! `{name*}`. A slash at the end is part of the template.

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
                TemplateSegment::Literal(_) | TemplateSegment::Parameter(_) => {}
            }
        }
        let template = Self { segments };
        if let Some(name) = template.repeated_name() {
            return Err(format!("the parameter {name} stands twice"));
        }
        Ok(template)
    }

    /// The names of the parameters, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            TemplateSegment::Literal(_) => None,
            TemplateSegment::Parameter(name) | TemplateSegment::Rest(name) => Some(name.as_str()),
        })
    }

    /// Whether it has a parameter of this name that is one segment.
    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        self.segments
            .iter()
            .any(|segment| matches!(segment, TemplateSegment::Parameter(other) if other == name))
    }

    /// The template without the names of its parameters: two templates of one shape match the same paths.
    pub(crate) fn shape(&self) -> String {
        let words: Vec<&str> = self
            .segments
            .iter()
            .map(|segment| match segment {
                TemplateSegment::Literal(text) => text.as_str(),
                TemplateSegment::Parameter(_) => "{}",
                TemplateSegment::Rest(_) => "{*}",
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
    if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        let (name, rest) = inner.strip_suffix('*').map_or((inner, false), |name| (name, true));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(format!("{text:?} is not a parameter: use letters, digits, _ - ."));
        }
        let name = name.to_owned();
        return Ok(if rest {
            TemplateSegment::Rest(name)
        } else {
            TemplateSegment::Parameter(name)
        });
    }
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
        for text in ["me", "chats/{chat_id}/messages", "user/{selfId}/chat/mass-message/", "a/{b*}"]
        {
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
    }

    #[test]
    fn what_no_path_can_match_is_refused() {
        for text in [
            "", "/", "/me", "a//b", "{a*}/b", "{a}/{a}", "{}", "{*}", "a{b}", "{a}.json", "{a b}",
            "a b", "a?b", "a#b", "a\\b", ".", "a/../b", "ä", "a\nb", "{a",
        ] {
            assert!(PathTemplate::parse(text).is_err(), "{text:?}");
        }
        assert!(PathTemplate::parse(&"a/".repeat(SEGMENTS_MAX)).is_err());
    }
}
