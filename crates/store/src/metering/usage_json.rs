//! Usage counts as JSON, in the formats of earlier versions.
//!
//! In rows with named members, unknown members are ignored and missing counts are 0. Rows by
//! position, which are older, may have extra elements. A row must say whose calls it counts.

use std::borrow::Cow;
use std::str::FromStr;

use domain::id::{CustomerId, KeyId};
use domain::time::Timestamp;
use serde_json::Value;

use super::count::{CallCounts, CountedEndpoint, EndedCallCounts};

/// The counts of one endpoint.
#[derive(serde::Deserialize)]
struct EndpointDelta<'a> {
    customer: CustomerId,
    day: i64,
    account: Cow<'a, str>,
    platform: Cow<'a, str>,
    method: Cow<'a, str>,
    route: Cow<'a, str>,
    keys: Vec<KeyDelta>,
}

/// The counts of one key.
#[derive(serde::Deserialize)]
struct KeyDelta {
    key: KeyId,
    #[serde(default)]
    calls: i64,
    #[serde(default)]
    credits: i64,
    #[serde(default)]
    errors: i64,
    #[serde(default)]
    last_at: Option<i64>,
    #[serde(default)]
    last_status: Option<i64>,
}

/// Parses a stored row; fails with a description of the error.
pub(super) fn read(text: &str) -> Result<EndedCallCounts<'static>, String> {
    let rows: Vec<Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut counted = EndedCallCounts::default();
    for row in rows {
        let delta = match row {
            Value::Array(elements) => by_position(&elements),
            named => serde_json::from_value(named).map_err(|error| error.to_string()),
        }?;
        add(&mut counted, delta);
    }
    Ok(counted)
}

fn add(counted: &mut EndedCallCounts<'static>, delta: EndpointDelta<'_>) {
    let names = [delta.account, delta.platform, delta.method, delta.route];
    let names = names.map(|name| Cow::Owned(name.into_owned()));
    let endpoint = CountedEndpoint { customer: delta.customer, day: delta.day, names };
    for key in delta.keys {
        let counts = CallCounts {
            calls: key.calls,
            credits: key.credits,
            errors: key.errors,
            last_at: key.last_at.map(Timestamp::from_unix_micros),
            last_status: key.last_status,
        };
        counted.add_one(&endpoint, key.key, &counts);
    }
}

/// The older format: `[customer, day, [account, platform, method, route], [[key, calls, credits,
/// errors, last_at, last_status], ...]]`.
fn by_position(elements: &[Value]) -> Result<EndpointDelta<'static>, String> {
    let [customer, day, names, keys, ..] = elements else {
        return Err("an endpoint has too few elements".to_owned());
    };
    let name = |index: usize| {
        text(names.get(index), "a name of the endpoint").map(|name| Cow::Owned(name.to_owned()))
    };
    let keys = keys.as_array().ok_or("the keys are not a list")?;
    let key = |element: &Value| -> Result<KeyDelta, String> {
        let number = |index: usize| element.get(index).and_then(Value::as_i64);
        let count = |index: usize| number(index).ok_or("a count is not a number");
        Ok(KeyDelta {
            key: id(element.get(0), "a key")?,
            calls: count(1)?,
            credits: count(2)?,
            errors: count(3)?,
            last_at: number(4),
            last_status: number(5),
        })
    };
    Ok(EndpointDelta {
        customer: id(Some(customer), "the customer")?,
        day: day.as_i64().ok_or("the day is not a number")?,
        account: name(0)?,
        platform: name(1)?,
        method: name(2)?,
        route: name(3)?,
        keys: keys.iter().map(key).collect::<Result<_, _>>()?,
    })
}

fn text<'v>(value: Option<&'v Value>, what: &str) -> Result<&'v str, String> {
    value.and_then(Value::as_str).ok_or_else(|| format!("{what} is not a text"))
}

fn id<T: FromStr>(value: Option<&Value>, what: &str) -> Result<T, String> {
    text(value, what)?.parse().map_err(|_| format!("{what} is not an id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUSTOMER: &str = "cus_0199f3a1b2c37d4e8f00000000000001";
    const KEY: &str = "key_0199f3a1b2c37d4e8f00000000000002";

    fn same(one: &EndedCallCounts<'_>, other: &EndedCallCounts<'_>) {
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }

    /// Exactly as the older version wrote it.
    fn positional(more: &str) -> String {
        format!(
            r#"[["{CUSTOMER}",20779,["ada","platform_alpha","GET","users.me"],[["{KEY}",2,2,1,1795262400000000,404{more}]]{more}]]"#
        )
    }

    fn named(more: &str) -> String {
        format!(
            r#"[{{"customer":"{CUSTOMER}","day":20779,"account":"ada","platform":"platform_alpha","method":"GET","route":"users.me","keys":[{{"key":"{KEY}","calls":2,"credits":2,"errors":1,"last_at":1795262400000000,"last_status":404{more}}}]{more}}}]"#
        )
    }

    #[test]
    fn rows_of_older_and_newer_versions_are_read() {
        let expected = read(&named("")).unwrap();

        same(&read(&positional("")).unwrap(), &expected);
        same(&read(&positional(",7")).unwrap(), &expected);
        same(&read(&named(r#","bytes":7,"more":{"a":[1]}"#)).unwrap(), &expected);
        let without = named("").replace(r#""errors":1,"#, "").replace(r#","last_status":404"#, "");
        let read_without = format!("{:?}", read(&without).unwrap());
        assert!(read_without.contains("errors: 0") && read_without.contains("last_status: None"));
        assert_eq!(expected.len(), 1);
    }

    #[test]
    fn a_row_without_required_members_is_refused() {
        for wrong in [
            "",
            "{}",
            "[1]",
            "[[]]",
            "[{}]",
            &positional("").replace(CUSTOMER, "somebody"),
            &positional("").replace(KEY, "some key"),
            &positional("").replace("20779", "\"today\""),
            &positional("").replace("\"ada\",", ""),
            &named("").replace("\"route\"", "\"path\""),
            &named("").replace("\"calls\":2", "\"calls\":\"2\""),
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
