//! Which platforms the configuration declares: found before anything else is read, because other
//! sections name them.

use config::{Map, Value, ValueKind};
use domain::platform::{Platform, PlatformDeclaration, PlatformNameProblem};

use super::problem::ConfigProblem;

/// What a platform that extends none starts from, over the settings of
/// `platform_alpha`.
const BLANK: &str = r#"
    headers = []
    verify_route = { path = "", id_pointer = "", equals_field = "", accepted_statuses = [] }
"#;

/// Declares the platforms of `tree`. A platform that extends a built-in one gets its default
/// settings below its own, and if it is the only one, and the built-in one is not set up itself, it
/// takes that one's place.
///
/// `tree` and `defaults` become complete: each declared platform has every key. Returns what is
/// wrong.
pub(super) fn declare(tree: &mut Value, defaults: &mut Value) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let mut declarations = Vec::new();
    for name in names(tree) {
        match declaration(&name, tree, defaults) {
            Ok(declaration) => declarations.push(declaration),
            Err(problem) => {
                problems.push(problem);
                remove(tree, &name);
            }
        }
    }
    problems.extend(remove_replaced(tree, defaults, &mut declarations));
    if let Err(problem) = Platform::declare(&declarations) {
        let (PlatformNameProblem::Malformed(name) | PlatformNameProblem::Repeated(name)) = &problem;
        problems.push(ConfigProblem::new(format!("platforms.{name}"), problem.to_string()));
    }
    problems.extend(drop_aliases(tree, defaults, &declarations));
    problems
}

/// The built-in platforms in their order, then the others by name.
fn names(tree: &Value) -> Vec<String> {
    let mut names: Vec<String> = Platform::BUILT_IN.map(|it| it.as_str().to_owned()).to_vec();
    let mut others: Vec<&String> =
        section(tree, "platforms").into_iter().flat_map(Map::keys).collect();
    others.sort_unstable();
    for name in others {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// What is declared by one table, whose missing keys are filled in.
fn declaration(
    name: &str,
    tree: &mut Value,
    defaults: &mut Value,
) -> Result<PlatformDeclaration, ConfigProblem> {
    let sells_slots = has_slot_price(tree, name);
    let plain = |stored_name: &str| PlatformDeclaration {
        name: name.to_owned(),
        stored_name: stored_name.to_owned(),
        sells_slots,
    };
    let extends = text(tree, name, "extends");
    if is_built_in(name) {
        return match extends.as_str() {
            "" => Ok(plain(name)),
            _ => Err(problem(name, "extends", "must be empty: this platform is built in")),
        };
    }
    if !extends.is_empty() && !is_built_in(&extends) {
        return Err(problem(name, "extends", &not_built_in(&extends)));
    }
    if extends.is_empty() && text(tree, name, "catalog").is_empty() {
        return Err(undeclared(name));
    }
    if !domain::platform::is_name(name) {
        let message =
            "must be named by 1 to 32 lowercase letters, digits and `_`, starting with a letter";
        return Err(ConfigProblem::new(format!("platforms.{name}"), message));
    }
    let base = base(defaults, &extends);
    put(defaults, name, base.clone());
    let mut whole = base;
    if let Some(given) = section(tree, "platforms").and_then(|all| all.get(name)).cloned() {
        lay_over(&mut whole, given);
    }
    put(tree, name, whole);
    Ok(plain(name))
}

/// What is said of a platform that cannot be extended.
fn not_built_in(extends: &str) -> String {
    let built_in = Platform::BUILT_IN.iter().map(|platform| platform.as_str());
    let unknown = super::problem::unknown(extends, built_in.clone());
    if unknown.contains("did you mean") {
        return unknown;
    }
    let built_in: Vec<&str> = built_in.collect();
    format!("must name a built-in platform: {}", built_in.join(", "))
}

/// A table of a name that is not built in, and that says neither what it extends nor which routes
/// it has.
fn undeclared(name: &str) -> ConfigProblem {
    let built_in = Platform::BUILT_IN.iter().map(|platform| platform.as_str());
    let unknown = super::problem::unknown(name, built_in);
    let message = format!("{unknown} A platform of your own needs `extends` or `catalog`");
    ConfigProblem::new(format!("platforms.{name}"), message)
}

/// Removes each built-in platform that has one platform in its place, which keeps its stored name.
/// Returns its settings that would be lost: each that is not the default.
fn remove_replaced(
    tree: &mut Value,
    defaults: &mut Value,
    declarations: &mut Vec<PlatformDeclaration>,
) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    for built_in in Platform::BUILT_IN {
        let built_in = built_in.as_str();
        let mut extending = declarations
            .iter_mut()
            .filter(|declared| text(tree, &declared.name, "extends") == built_in);
        let (Some(only), None) = (extending.next(), extending.next()) else { continue };
        if !text(tree, built_in, "base_url").is_empty() {
            continue;
        }
        built_in.clone_into(&mut only.stored_name);
        only.sells_slots |= has_slot_price(tree, built_in);
        for key in changed_keys(tree, defaults, built_in) {
            let message = format!(
                "has no effect: platforms.{} takes the place of this platform; set it there, or \
                 give {built_in} a base_url to have both",
                only.name
            );
            problems.push(ConfigProblem::new(format!("platforms.{built_in}.{key}"), message));
        }
        remove(tree, built_in);
        remove(defaults, built_in);
        declarations.retain(|declared| declared.name != built_in);
    }
    problems
}

/// The keys of a platform's table that are not as the defaults have them.
fn changed_keys(tree: &Value, defaults: &Value, name: &str) -> Vec<String> {
    let table = |root| section(root, "platforms").and_then(|all| table_of(all.get(name)?));
    let Some(given) = table(tree) else { return Vec::new() };
    let default = |key: &String| table(defaults).and_then(|table| table.get(key));
    let mut keys: Vec<String> = given
        .iter()
        .filter(|(key, value)| default(key).is_none_or(|default| default.kind != value.kind))
        .map(|(key, _)| key.clone())
        .collect();
    keys.sort_unstable();
    keys
}

/// Where both names of a platform stand in one table, the default under the stored name goes.
/// Anything else under it was set by the operator, and is refused: one of the two would be ignored.
fn drop_aliases(
    tree: &mut Value,
    defaults: &Value,
    declarations: &[PlatformDeclaration],
) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    for key in ["included", "prices"] {
        let usual = section(defaults, "slots").and_then(|slots| table_of(slots.get(key)?));
        let table = section_mut(tree, "slots").and_then(|slots| slots.get_mut(key));
        let Some(ValueKind::Table(table)) = table.map(|value| &mut value.kind) else { continue };
        for PlatformDeclaration { name, stored_name, .. } in declarations {
            if name == stored_name || !table.contains_key(name) {
                continue;
            }
            let removed = table.remove(stored_name).map(|value| value.kind);
            let default = usual.and_then(|usual| usual.get(stored_name)).map(|value| &value.kind);
            if removed.is_some() && removed.as_ref() != default {
                problems.push(ConfigProblem::new(
                    format!("slots.{key}.{stored_name}"),
                    format!("is the same platform as {name}, which is given too; take one out"),
                ));
            }
        }
    }
    problems
}

fn base(defaults: &Value, extends: &str) -> Value {
    let of = |name: &str| section(defaults, "platforms").and_then(|all| all.get(name)).cloned();
    if !extends.is_empty() {
        return of(extends).unwrap_or_else(empty);
    }
    let mut base = of(Platform::ALPHA.as_str()).unwrap_or_else(empty);
    if let Ok(blank) = super::layers::layer(BLANK).build() {
        lay_over(&mut base, blank.cache);
    }
    base
}

fn empty() -> Value {
    Value::new(None, ValueKind::Table(Map::new()))
}

/// Puts `over` on top of `below`: tables key by key, everything else as a whole.
fn lay_over(below: &mut Value, over: Value) {
    match (&mut below.kind, over.kind) {
        (ValueKind::Table(below), ValueKind::Table(over)) => {
            for (key, value) in over {
                match below.get_mut(&key) {
                    Some(below) => lay_over(below, value),
                    None => drop(below.insert(key, value)),
                }
            }
        }
        (below, over) => *below = over,
    }
}

fn section<'a>(tree: &'a Value, name: &str) -> Option<&'a Map<String, Value>> {
    table_of(table_of(tree)?.get(name)?)
}

fn table_of(value: &Value) -> Option<&Map<String, Value>> {
    match &value.kind {
        ValueKind::Table(table) => Some(table),
        _ => None,
    }
}

fn section_mut<'a>(tree: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    let ValueKind::Table(root) = &mut tree.kind else { return None };
    match &mut root.get_mut(name)?.kind {
        ValueKind::Table(section) => Some(section),
        _ => None,
    }
}

fn put(tree: &mut Value, name: &str, value: Value) {
    if let Some(all) = section_mut(tree, "platforms") {
        all.insert(name.to_owned(), value);
    }
}

fn remove(tree: &mut Value, name: &str) {
    if let Some(all) = section_mut(tree, "platforms") {
        all.remove(name);
    }
}

/// A text of a platform's table; empty when there is none.
fn text(tree: &Value, name: &str, key: &str) -> String {
    let table = section(tree, "platforms").and_then(|all| all.get(name));
    match table.map(|table| &table.kind) {
        Some(ValueKind::Table(table)) => {
            let value = table.get(key).cloned();
            value.and_then(|value| value.into_string().ok()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn has_slot_price(tree: &Value, name: &str) -> bool {
    let prices = section(tree, "slots").and_then(|slots| slots.get("prices"));
    matches!(prices.map(|prices| &prices.kind), Some(ValueKind::Table(table)) if table.contains_key(name))
}

fn is_built_in(name: &str) -> bool {
    Platform::BUILT_IN.iter().any(|platform| platform.as_str() == name)
}

fn problem(name: &str, key: &str, message: &str) -> ConfigProblem {
    ConfigProblem::new(format!("platforms.{name}.{key}"), message)
}

#[cfg(test)]
mod tests {
    use super::super::{Config, UnreadableConfig};
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
    fn a_platform_that_extends_another_starts_from_its_defaults_and_takes_its_place() {
        let text = "[platforms.mine]\nextends = \"platform_gamma\"\nbase_url = \"https://mine.example.com\"\n\
                    user_agent = \"x\"\n[slots.included]\nmine = 9";

        let config = Config::from_toml(text).unwrap();

        let named: Platform = "mine".parse().unwrap();
        assert_eq!("platform_gamma".parse(), Ok(named));
        assert_eq!(Platform::all().len(), 4);
        let (mine, section) = config.platforms.offered().next().unwrap();
        assert_eq!((mine.as_str(), mine.stored_name()), ("mine", "platform_gamma"));
        assert_eq!((section.user_agent.as_str(), section.path_prefix.as_str()), ("x", "/"));
        assert_eq!(config.slots.included_on(mine), 9);
        assert_eq!(config.problems(), Vec::new());
        let written = config.to_toml().unwrap();
        assert_eq!(Config::from_toml(&written).unwrap().to_toml().unwrap(), written);
    }

    #[test]
    fn two_platforms_that_extend_the_same_one_stand_beside_it() {
        let text = "[platforms.one]\nextends = \"platform_delta\"\n[platforms.two]\nextends = \"platform_delta\"";

        Config::from_toml(text).unwrap();

        let names: Vec<&str> = Platform::all().iter().map(|it| it.as_str()).collect();
        assert_eq!(
            names,
            ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta", "one", "two"]
        );
    }

    #[test]
    fn misspelt_and_impossible_platforms_are_refused_by_name() {
        let of = |toml: &str| problems(toml).join("\n");

        let misspelt = of("[platforms.platform_alfa]\nbase_url = \"https://a.example.com\"");
        assert!(misspelt.starts_with("platforms.platform_alfa: "), "{misspelt}");
        assert!(misspelt.contains("did you mean `platform_alpha`?"), "{misspelt}");
        let extends = of("[platforms.mine]\nextends = \"platform_betta\"");
        assert!(extends.starts_with("platforms.mine.extends: "), "{extends}");
        assert!(extends.contains("did you mean `platform_beta`?"), "{extends}");
        let built_in = of("[platforms.platform_beta]\nextends = \"platform_alpha\"");
        assert!(built_in.starts_with("platforms.platform_beta.extends: "), "{built_in}");
        let name = of("[platforms.\"My-own\"]\nextends = \"platform_alpha\"");
        assert!(name.contains("lowercase letters"), "{name}");
        let slots = of("[slots.included]\nnobody = 1");
        assert!(slots.starts_with("slots.included"), "{slots}");
        assert!(slots.contains("must be one of platform_alpha, "), "{slots}");
    }

    #[test]
    fn only_built_in_platforms_are_extended_so_no_two_extend_each_other() {
        let found = problems(
            "[platforms.one]\nextends = \"two\"\n[platforms.two]\nextends = \"one\"\n\
             [platforms.three]\nextends = \"three\"",
        );

        let said = "must name a built-in platform: platform_alpha, platform_beta, platform_gamma, \
                    platform_delta";
        let expected =
            ["one", "three", "two"].map(|name| format!("platforms.{name}.extends: {said}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn settings_of_a_platform_that_another_takes_the_place_of_are_refused_not_ignored() {
        let mine =
            "[platforms.mine]\nextends = \"platform_alpha\"\nbase_url = \"https://m.example\"\n";

        let found = problems(&format!(
            "{mine}[platforms.platform_alpha]\ncookies = true\nusr_agent = \"x\"\nbase_url = \"\"\n\
             [platforms.platform_alpha.pacing]\nmax_wait_ms = 5"
        ));

        let said = "has no effect: platforms.mine takes the place of this platform; set it there, \
                    or give platform_alpha a base_url to have both";
        let expected = ["cookies", "pacing", "usr_agent"]
            .map(|key| format!("platforms.platform_alpha.{key}: {said}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_platform_is_named_once_in_each_table() {
        let mine =
            "[platforms.mine]\nextends = \"platform_alpha\"\nbase_url = \"https://m.example\"\n";
        let of = |table: &str| problems(&format!("{mine}{table}"));

        let said = "is the same platform as mine, which is given too; take one out";
        assert_eq!(
            of("[slots.included]\nmine = 3\nplatform_alpha = 77"),
            [format!("slots.included.platform_alpha: {said}")]
        );
        assert_eq!(
            of("[slots.prices]\nmine = { price_cents = 99, price_id = \"\" }\n\
                platform_alpha = { price_cents = 98, price_id = \"\" }"),
            [format!("slots.prices.platform_alpha: {said}")]
        );
        let plan = "[[plans]]\nid = \"p\"\nname = \"P\"\nprice_cents = 100\nmonthly_credits = 1\n\
                    platforms = { mine = 1, platform_alpha = 2 }";
        assert_eq!(of(plan), ["plans[0].platforms: must name mine once"]);
    }

    #[test]
    fn a_platform_without_a_built_in_one_has_every_key() {
        let text = "[platforms.own]\ncatalog = \"own.toml\"\nbase_url = \"https://own.example.com\"\n\
                    verify_route = { path = \"me\" }";

        let config = Config::from_toml(text).unwrap();

        let (own, section) = config.platforms.offered().next().unwrap();
        assert_eq!((own.as_str(), section.headers.len()), ("own", 0));
        assert_eq!(section.verify_route.path, "me");
        assert!(section.response_headers.iter().any(|name| name == "Link"));
        let missing =
            "[platforms.own]\ncatalog = \"own.toml\"\nbase_url = \"https://own.example.com\"";
        let found = Config::from_toml(missing).unwrap().problems();
        assert!(found.iter().any(|it| it.key == "platforms.own.verify_route.path"), "{found:?}");
    }
}
