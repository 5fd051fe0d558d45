//! Lists of names: each once, none too long in bytes, which a schema cannot express.

use std::collections::HashSet;

use domain::field_error::FieldErrorKind;
use failures::FieldProblem;
use serde_json::Value;

use super::{FieldProblems, GoodFields};

impl GoodFields<'_> {
    /// Reports each name of a list in the body that is too long or was there before. `each` is what
    /// one of them is called, such as `column`.
    pub fn check_names(
        &self,
        field: &str,
        each: &str,
        bytes_max: usize,
        problems: &mut FieldProblems,
    ) {
        let given = self.value(field).and_then(Value::as_array).into_iter().flatten();
        let mut names = HashSet::new();
        for (index, name) in given.enumerate() {
            let name = name.as_str().unwrap_or_default();
            let (kind, message) = if name.len() > bytes_max {
                (FieldErrorKind::TooLong, format!("must have at most {bytes_max} bytes"))
            } else if names.insert(name) {
                continue;
            } else {
                let message = format!("is already in the list; name each {each} once");
                (FieldErrorKind::Duplicate, message)
            };
            let mut problem = FieldProblem::new("body", field, kind, message);
            problem.loc.push(index.to_string());
            problems.add(problem);
        }
    }
}
