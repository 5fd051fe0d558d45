//! Requests as the processor reads them: `application/x-www-form-urlencoded`, nested keys in
//! brackets.

use std::fmt::Display;

use form_urlencoded::Serializer;

/// The parameters of one request, in the order in which they were added.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct FormParameters(Vec<(String, String)>);

impl FormParameters {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter; `key` is written out, such as `items[0][id]`.
    #[must_use]
    pub(super) fn with(mut self, key: impl Into<String>, value: impl Display + Copy) -> Self {
        self.0.push((key.into(), value.to_string()));
        self
    }

    /// Adds a parameter if there is a value.
    #[must_use]
    pub(super) fn with_some(self, key: &str, value: Option<impl Display + Copy>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds `key[name]=value` for each pair.
    #[must_use]
    pub(super) fn with_map(mut self, key: &str, pairs: &[(&str, &str)]) -> Self {
        for (name, value) in pairs {
            self.0.push((format!("{key}[{name}]"), (*value).to_owned()));
        }
        self
    }

    /// Asks for these objects instead of their ids.
    #[must_use]
    pub(super) fn expanding(mut self, paths: &[&str]) -> Self {
        self.0.extend(paths.iter().map(|path| ("expand[]".to_owned(), (*path).to_owned())));
        self
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The whole as it stands in a body or after a question mark.
    pub(super) fn encoded(&self) -> String {
        Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }
}

/// The words of a search for what has `metadata[name] = value`.
pub(super) fn metadata_is(name: &str, value: &str) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("metadata['{}']:'{}'", quoted(name), quoted(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_keys_and_any_text_are_written_as_a_form() {
        let form = FormParameters::new()
            .with("amount", 1_000)
            .with_some("description", None::<&str>)
            .with_some("off_session", Some(true))
            .with_map("metadata", &[("order id", "a&b=ü")])
            .expanding(&["latest_invoice"]);

        assert_eq!(
            form.encoded(),
            "amount=1000&off_session=true&metadata%5Border+id%5D=a%26b%3D%C3%BC&expand%5B%5D=latest_invoice"
        );
    }
}
