//! Files that are refused say which entry is wrong and what it should be; files at their limits are
//! read.

use catalog::Catalog;
use domain::platform::Platform;

use crate::platform_file::{problem, read, route};

#[test]
fn a_template_that_no_path_can_match_is_refused_with_the_reason() {
    for (template, reason) in [
        ("", "a template is a path without a slash at its beginning"),
        ("/me", "a template is a path without a slash at its beginning"),
        ("a//b", "a segment is empty"),
        ("{a*}/b", "{a*} must be the last segment"),
        ("v{a*}", "{a*} must be a whole segment: it has text before or after it"),
        ("{a}/b/{a}", "the parameter a appears twice"),
        ("{a}/{a}.json", "the parameter a appears twice"),
        ("x/{a b}", "{a b} is not a parameter: use letters, digits, _ - ."),
        ("{}", "{} is not a parameter: use letters, digits, _ - ."),
        ("{a", "\"{a\" opens a parameter that it does not close"),
        ("{a}-{b}", "\"{a}-{b}\" has two parameters in one segment: at most one is matched"),
        ("a/../b", "a segment of dots is not a path that can be sent"),
        ("münze", "\"münze\" is neither a literal segment nor a parameter"),
        ("a b", "\"a b\" is neither a literal segment nor a parameter"),
        ("{a}?x", "\"{a}?x\" is neither a literal segment nor a parameter"),
        (&["a"; 25].join("/"), "a template has at most 24 segments"),
    ] {
        let told = problem(&route("GET", template, ""));

        assert_eq!(told, format!("line 1: GET {template}: {reason}"));
    }
}

#[test]
fn a_wrong_line_of_an_entry_is_named_with_what_it_should_be() {
    let long = "x".repeat(4097);
    for (method, lines, reason) in [
        ("GET", format!("notes = {long:?}"), "a text is longer than 4096 bytes"),
        ("GET", format!("group = {long:?}"), "a text is longer than 4096 bytes"),
        ("GET", format!("operation_id = {long:?}"), "operation_id is longer than 4096 bytes"),
        (
            "GET",
            format!("headers = [{{ name = {long:?} }}]"),
            "headers: a name has 1 to 4096 bytes",
        ),
        (
            "GET",
            format!("query = [{{ name = \"q\", description = {long:?} }}]"),
            "query: q: the description is longer than 4096 bytes",
        ),
        ("GET", "scopes = [\"read chat\"]".to_owned(), "a scope is one word"),
        ("GET", "scopes = [\"\"]".to_owned(), "a scope is one word"),
        (
            "GET",
            "free_text = [\"b\"]".to_owned(),
            "free_text names b, which is no parameter of one segment",
        ),
        (
            "POST",
            "shorthand = { target = \"b\" }".to_owned(),
            "a shorthand is for GET and has no other kind",
        ),
        (
            "GET",
            "kind = \"internal\"\nshorthand = { target = \"b\" }".to_owned(),
            "a shorthand is for GET and has no other kind",
        ),
        (
            "GET",
            "shorthand = { target = \"b/{name}\" }".to_owned(),
            "the target of a shorthand has no parameter but {id}",
        ),
        (
            "GET",
            "shorthand = { target = \"/b\" }".to_owned(),
            "a template is a path without a slash at its beginning",
        ),
    ] {
        let told = problem(&route(method, "a", &lines));

        assert_eq!(told, format!("line 1: {method} a: {reason}"));
    }
    let told = problem(&route("GET", "a/{b}", "shorthand = { target = \"b\" }"));
    assert_eq!(told, "line 1: GET a/{b}: the path of a shorthand has no parameters");
}

#[test]
fn texts_and_templates_at_their_limits_are_read() {
    let text = "é".repeat(2048);
    let lines = format!(
        "group = {text:?}\nnotes = {text:?}\ndescription = {text:?}\noperation_id = {text:?}\n\
         query = [{{ name = {text:?}, description = {text:?} }}]"
    );
    let template = ["a"; 24].join("/");

    let catalog = read(&route("GET", &template, &lines));

    let found = catalog.find(domain::method::Method::Get, &template).unwrap().route;
    assert_eq!((found.notes.len(), found.query_parameters[0].name.len()), (4096, 4096));
}

#[test]
fn the_line_is_that_of_the_entry_whatever_stands_before_it() {
    let bad = route("GET", "a//b", "");
    let inline = "routes = [\n  { method = \"GET\", template = \"a\" },\n\
                  \u{20} { method = \"GET\", template = \"//\" },\n]\n";
    for (text, line) in [
        (bad.clone(), 1),
        (format!("# ä\n\n{bad}"), 3),
        (format!("{}{bad}", route("GET", "a", "notes = \"\"\"\nthree\nlines\"\"\"")), 7),
        (format!("# one\n{bad}").replace('\n', "\r\n"), 2),
        (inline.to_owned(), 3),
    ] {
        let told = problem(&text);

        assert!(told.starts_with(&format!("line {line}: GET ")), "{text}: {told}");
    }
}

#[test]
fn what_is_no_such_file_is_refused_with_what_was_expected() {
    let good = route("GET", "a", "");
    for (text, expected) in [
        ("[[routes]\n".to_owned(), "line 1"),
        (format!("{good}{good}method = \"GET\""), "duplicate key"),
        (route("FETCH", "a", ""), "one of GET, POST, PUT, PATCH, DELETE"),
        (route("get", "a", ""), "one of GET, POST, PUT, PATCH, DELETE"),
        ("[[routes]]\nmethod = \"GET\"\n".to_owned(), "missing field `template`"),
        (route("GET", "a", "verified = \"yes\""), "expected a boolean"),
        (route("GET", "a", "kind = \"native\""), "expected `upload` or `internal`"),
        (route("GET", "a", "summary = \"x\""), "unknown field `summary`"),
        (
            "media_archive = \"never\"".to_owned(),
            "expected one of `unavailable`, `disabled`, `not_offered`",
        ),
        ("[[auth_fields]]\nname = \"a\"\nkind = \"text\"".to_owned(), "`string_list`"),
    ] {
        let told = problem(&text);

        assert!(told.contains(expected), "{text}: {told}\nlacks: {expected}");
    }
}

#[test]
fn a_file_may_be_empty_and_may_come_from_any_editor() {
    for text in ["", "# nothing yet\n", "\u{feff}", "routes = []"] {
        let catalog = read(text);

        assert_eq!((catalog.routes().len(), catalog.datasets().len()), (0, 0), "{text:?}");
    }
    let windows = format!("\u{feff}{}", route("GET", "a", "notes = \"n\"")).replace('\n', "\r\n");
    assert_eq!(read(&windows).routes()[0].notes, "n");
}

#[test]
fn what_an_entry_lists_twice_is_refused_by_its_name() {
    let twice = "[{ name = \"b\" }, { name = \"c\" }, { name = \"b\", required = true }]";
    for key in ["query", "headers"] {
        let told = problem(&route("GET", "a", &format!("{key} = {twice}")));

        assert_eq!(told, format!("line 1: GET a: {key}: b appears twice"));
    }
    let path = "parameters = [{ name = \"b\" }, { name = \"b\" }]";
    let told = problem(&route("GET", "{b}", path));
    assert_eq!(told, "line 1: GET {b}: parameters: b appears twice");
    let differs_in_case = "query = [{ name = \"sort\" }, { name = \"Sort\" }]";
    assert_eq!(read(&route("GET", "a", differs_in_case)).routes()[0].query_parameters.len(), 2);
}

#[test]
fn two_entries_for_the_same_calls_are_one_too_many_whatever_their_parameters_are_called() {
    for (first, second) in [
        (("GET", "a/{x}"), ("GET", "a/{y}")),
        (("GET", "a/{x}.json"), ("GET", "a/{y}.json")),
        (("PUT", "a/{x*}"), ("PUT", "a/{y*}")),
        (("GET", "a/"), ("GET", "a/")),
    ] {
        let told = problem(&(route(first.0, first.1, "") + &route(second.0, second.1, "")));

        assert_eq!(
            told,
            format!("line 5: two entries are for {} {}", second.0, second.1.replace('*', ""))
        );
    }
    let different = ["a/{x}", "a/{x*}", "a/{x}.json", "a/v{x}", "a/{x}/", "a/x", "A/x"];
    let text: String = different.iter().map(|template| route("GET", template, "")).collect();
    assert_eq!(read(&(text + &route("POST", "a/{x}", ""))).routes().len(), 8);
}

#[test]
fn a_built_in_catalogue_can_be_that_of_a_platform_of_another_name() {
    let zoo = Platform::from_stored("zoo").unwrap();
    let built_in = Catalog::built_in().unwrap();

    let catalog = Catalog::empty().with_built_in(zoo, "platform_gamma").unwrap();

    let (own, gamma) = (catalog.platform(zoo), built_in.platform(Platform::GAMMA));
    assert_eq!(own.to_toml(), gamma.to_toml());
    assert_eq!(catalog.platform(Platform::GAMMA).routes().len(), 0);
    for name in ["zoo", "platform_omega", "PLATFORM_GAMMA", "platform_gamma ", ""] {
        let told = Catalog::empty().with_built_in(zoo, name).unwrap_err().to_string();
        assert_eq!(told, format!("the catalogue of zoo: there is no built-in platform {name}"));
    }
}

#[test]
fn of_two_catalogues_the_later_has_the_platforms_that_both_have() {
    let of = |platform, template: &str| {
        Catalog::empty().with_extra(platform, &route("GET", template, "")).unwrap()
    };
    let names = |catalog: &Catalog, platform| -> Vec<String> {
        catalog.platform(platform).routes().iter().map(|route| route.name.clone()).collect()
    };

    let first = of(Platform::ALPHA, "a").joined_with(&of(Platform::BETA, "b"));
    let both = first.joined_with(&of(Platform::BETA, "c"));

    assert_eq!(names(&both, Platform::ALPHA), ["GET a"]);
    assert_eq!(names(&both, Platform::BETA), ["GET c"]);
    assert_eq!(names(&both, Platform::DELTA), [""; 0]);
}

#[test]
fn a_platform_that_is_not_declared_has_nothing_and_a_replacement_can_begin_it() {
    let empty = Catalog::empty();
    let nothing = empty.platform(Platform::DELTA);
    assert_eq!((nothing.routes().len(), nothing.auth_fields().len()), (0, 0));
    assert!(nothing.upload().is_none() && nothing.datasets().is_empty());
    assert!(nothing.find(domain::method::Method::Get, "me").is_none());
    assert_eq!(nothing.to_toml(), "\n");

    let begun = empty.with_replacement(Platform::DELTA, &route("GET", "me", "")).unwrap();

    assert!(begun.platform(Platform::DELTA).find(domain::method::Method::Get, "me").is_some());
}
