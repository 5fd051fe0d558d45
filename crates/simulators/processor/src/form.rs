//! The parameters of a form: `items[0][price]=price_1&metadata[order]=7`, and their validation.

use simulator_kit::pairs::parse_pairs;

use super::problem::ApiError;

/// Keys and values of a form, in the order in which they were sent. A key is a path:
/// `items.0.price`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormParams(Vec<(Vec<String>, String)>);

impl FormParams {
    /// Parses a form. Each `expand[]` gets the next index.
    pub(crate) fn parse(form: &str) -> Self {
        let mut read: Vec<(Vec<String>, String)> = Vec::new();
        for (key, value) in parse_pairs(form) {
            let (first, rest) = key.split_once('[').unwrap_or((&key, ""));
            let mut path = vec![first.to_owned()];
            for part in rest.split('[').filter(|_| !rest.is_empty()) {
                let part = part.strip_suffix(']').unwrap_or(part);
                let before = read
                    .iter()
                    .filter(|(known, _)| known.len() > path.len() && known.starts_with(&path));
                path.push(if part.is_empty() {
                    before.count().to_string()
                } else {
                    part.to_owned()
                });
            }
            read.push((path, value));
        }
        Self(read)
    }

    /// Refuses parameters that no pattern allows. A `*` in a pattern matches any name; a pattern
    /// that ends with `?` allows an empty value, which unsets the field.
    pub(crate) fn only(&self, patterns: &[&str]) -> Result<(), ApiError> {
        for (path, value) in &self.0 {
            let shown = written(path);
            let fits = patterns.iter().find(|pattern| fits(pattern.trim_end_matches('?'), path));
            let Some(pattern) = fits else {
                let message = format!("Received unknown parameter: {shown}");
                return Err(ApiError::param(&shown, message).code("parameter_unknown"));
            };
            if value.is_empty() && !pattern.ends_with('?') {
                let message = format!(
                    "You passed an empty string for '{shown}'. We assume empty values are an attempt to unset a parameter; however '{shown}' cannot be unset. You should remove '{shown}' from your request or supply a non-empty value."
                );
                return Err(ApiError::param(&shown, message).code("parameter_invalid_empty"));
            }
        }
        Ok(())
    }

    /// The value at this path.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| is_path(known, path));
        found.map(|(_, value)| value.as_str())
    }

    /// The value with this name directly below the path; the name may contain a dot.
    pub(crate) fn text_below(&self, path: &str, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| {
            let (last, above) = known
                .split_last()
                .map_or(("", known.as_slice()), |(last, above)| (last.as_str(), above));
            last == name && is_path(above, path)
        });
        found.map(|(_, value)| value.as_str())
    }

    /// The value at this path, which is required.
    pub(crate) fn required(&self, path: &str) -> Result<&str, ApiError> {
        self.text(path).ok_or_else(|| ApiError::missing(&name(path)))
    }

    /// A whole number.
    pub(crate) fn integer(&self, path: &str) -> Result<Option<i64>, ApiError> {
        let parse = |text: &str| {
            let invalid = || ApiError::param(&name(path), format!("Invalid integer: {text}"));
            text.parse().map_err(|_| invalid().code("parameter_invalid_integer"))
        };
        self.text(path).map(parse).transpose()
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, path: &str) -> Result<Option<bool>, ApiError> {
        match self.text(path) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(ApiError::param(&name(path), format!("Invalid boolean: {other}"))),
        }
    }

    /// One of these words.
    pub(crate) fn one_of(
        &self,
        path: &str,
        words: &[&'static str],
    ) -> Result<Option<&'static str>, ApiError> {
        let Some(given) = self.text(path) else { return Ok(None) };
        let word = words.iter().find(|word| **word == given).copied();
        let refuse = || {
            let message = format!("Invalid {}: must be one of {}", name(path), words.join(", "));
            ApiError::param(&name(path), message)
        };
        word.map(Some).ok_or_else(refuse)
    }

    /// The values below the path as an object of texts; null if there are none.
    pub(crate) fn nested(&self, path: &str) -> serde_json::Value {
        let mut object = serde_json::Value::Null;
        for name in self.names(path) {
            let below = format!("{path}.{name}");
            let inner = match self.text(&below) {
                Some(text) => serde_json::Value::from(text),
                None => self.nested(&below),
            };
            super::fields::set(&mut object, &name, inner);
        }
        object
    }

    /// Whether there is a value at the path or below it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let wanted: Vec<&str> = path.split('.').collect();
        self.0.iter().any(|(known, _)| {
            known.len() >= wanted.len()
                && known.iter().zip(&wanted).all(|(one, other)| one == other)
        })
    }

    /// The names directly below the path, numbers in ascending order.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let wanted: Vec<&str> = path.split('.').collect();
        let mut names: Vec<String> = Vec::new();
        for (known, _) in &self.0 {
            let below = known.iter().zip(&wanted).all(|(one, other)| one == other);
            if let Some(found) = known.get(wanted.len()).filter(|_| below)
                && !names.contains(found)
            {
                names.push(found.clone());
            }
        }
        names.sort_by_key(|found| found.parse::<u64>().unwrap_or(u64::MAX));
        names
    }

    /// Keys and values for comparing two requests, independent of their order.
    pub(crate) fn fingerprint(&self) -> String {
        let mut all: Vec<String> =
            self.0.iter().map(|(path, value)| format!("{}={value}", written(path))).collect();
        all.sort();
        all.join("&")
    }

    /// All parameters as one object, for the list of requests.
    pub(crate) fn shown(&self) -> serde_json::Value {
        let pairs = self
            .0
            .iter()
            .filter(|(path, _)| path.first().is_none_or(|first| first != "client_secret"));
        pairs
            .map(|(path, value)| (written(path), serde_json::Value::from(value.as_str())))
            .collect()
    }
}

/// `items.0.price` as written in a form.
pub(crate) fn name(path: &str) -> String {
    written(&path.split('.').map(str::to_owned).collect::<Vec<_>>())
}

fn written(path: &[String]) -> String {
    let mut parts = path.iter();
    let first = parts.next().cloned().unwrap_or_default();
    parts.fold(first, |written, part| format!("{written}[{part}]"))
}

fn is_path(known: &[String], path: &str) -> bool {
    known.iter().map(String::as_str).eq(path.split('.'))
}

fn fits(pattern: &str, path: &[String]) -> bool {
    let parts: Vec<&str> = pattern.split('.').collect();
    parts.len() == path.len()
        && parts.iter().zip(path).all(|(part, given)| *part == "*" || part == given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_keys_are_read_and_unknown_ones_refused() {
        let params = FormParams::parse(
            "items[0][id]=si_1&items%5B10%5D[quantity]=2&items[2][id]=b&expand[]=a&expand[]=b.c&metadata[a+b]=c%26d",
        );

        assert_eq!(params.text("items.0.id"), Some("si_1"));
        assert_eq!(params.integer("items.10.quantity").unwrap(), Some(2));
        assert_eq!(params.names("items"), ["0", "2", "10"]);
        assert_eq!((params.text("expand.0"), params.text("expand.1")), (Some("a"), Some("b.c")));
        assert_eq!(params.text("metadata.a b"), Some("c&d"));
        let refused = params.only(&["items.*.id", "expand.*", "metadata.*"]).unwrap_err();
        assert_eq!(refused.param.as_deref(), Some("items[10][quantity]"));
        assert_eq!(refused.code.as_deref(), Some("parameter_unknown"));
    }

    #[test]
    fn a_field_that_cannot_be_unset_is_not_empty() {
        let params = FormParams::parse("name=&customer=");

        assert!(params.only(&["name?", "customer?"]).is_ok());
        let refused = params.only(&["name?", "customer"]).unwrap_err();
        assert_eq!(refused.code.as_deref(), Some("parameter_invalid_empty"));
    }
}
