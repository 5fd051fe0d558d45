//! The catalogue of all kinds of faults, by family.

use serde_json::{Value, json};

use super::input::{FaultField, FieldMistake};
use super::kind::FaultKind;
use super::{bodies, bombs, connection, framing, heads, pages, timing};

/// The families: their names and their kinds.
const FAMILIES: [(&str, &[FaultKind]); 7] = [
    ("connection", &connection::KINDS),
    ("timing", &timing::KINDS),
    ("framing", &framing::KINDS),
    ("head", &heads::KINDS),
    ("body", &bodies::KINDS),
    ("size", &bombs::KINDS),
    ("pages", &pages::KINDS),
];

/// The kind with this name; the error names all kinds.
pub(super) fn kind(name: &str) -> Result<&'static FaultKind, FieldMistake> {
    let kinds = || FAMILIES.iter().flat_map(|(_, kinds)| *kinds);
    kinds().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = kinds().map(|kind| kind.name).collect();
        FieldMistake::new("kind", format!("must be one of {}", names.join(", ")))
    })
}

/// All kinds, for people and for tests.
pub(super) fn shown() -> Value {
    let kinds = FAMILIES.iter().flat_map(|(family, kinds)| {
        kinds.iter().map(move |kind| {
            let fields: Vec<Value> = kind.fields.iter().map(FaultField::shown).collect();
            json!({
                "kind": kind.name,
                "family": family,
                "says": kind.says,
                "fields": fields,
                "carried_out": kind.carried_out,
                "platform": kind.only_on,
            })
        })
    });
    kinds.collect()
}
