//! Which keys of a recipe's part its source has a use for: one that is written elsewhere is a
//! mistake.

use outbound::SettingsProblem;

use super::settings::PartSettings;

/// All sources, for messages.
pub(super) const SOURCES: &str = "method, target, path, body, time_s, time_ms, random, field, device_id, text, secret, \
                                  value, hash, hmac";

/// Refuses keys that the source has no use for.
pub(super) fn check(
    key: &impl Fn(&str) -> String,
    part: &PartSettings,
    problems: &mut Vec<SettingsProblem>,
) {
    let Some(used) = used_by(&part.from) else { return };
    let given = [
        ("text", !part.text.is_empty()),
        ("secret", !part.secret.is_empty()),
        ("field", !part.field.is_empty()),
        ("value", !part.value.is_empty()),
        ("bytes", part.bytes != 0),
        ("of", !part.of.is_empty()),
        ("separator", !part.separator.is_empty()),
        ("key", !part.key.is_empty()),
        ("algorithm", !part.algorithm.is_empty()),
        ("encoding", !part.encoding.is_empty()),
        ("empty", !part.empty.is_empty()),
        ("spooled", !part.spooled.is_empty()),
    ];
    for (name, _) in given.iter().filter(|(name, is_given)| *is_given && !used.contains(name)) {
        let message = format!("is of no use to a part from {:?}; take it out", part.from);
        problems.push(SettingsProblem::new(key(name), message));
    }
}

/// The keys that a source reads, besides its name; nothing for an unknown one.
fn used_by(from: &str) -> Option<&'static [&'static str]> {
    Some(match from {
        "method" | "target" | "path" | "time_s" | "time_ms" => &[],
        "text" => &["text"],
        "secret" => &["secret"],
        "field" => &["field"],
        "device_id" => &["field", "secret"],
        "value" => &["value"],
        "random" => &["bytes", "encoding"],
        "body" => &["algorithm", "encoding", "empty", "spooled"],
        "hash" => &["of", "separator", "algorithm", "encoding"],
        "hmac" => &["of", "separator", "algorithm", "encoding", "key"],
        _ => return None,
    })
}
