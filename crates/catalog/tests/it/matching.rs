//! Which entry of an operator's file a call belongs to, and what is known of it.

use catalog::{ParameterSetter, PlatformCatalog, Route};
use domain::method::Method;

use crate::platform_file::{read, route};

fn gets(templates: &[&str]) -> PlatformCatalog {
    read(&templates.iter().map(|template| route("GET", template, "")).collect::<String>())
}

/// The only route of a file with one entry.
fn only(template: &str, lines: &str) -> Route {
    read(&route("GET", template, lines)).routes()[0].clone()
}

#[test]
fn of_overlapping_templates_the_one_with_more_literal_text_is_found() {
    let catalog = gets(&[
        "files/{path*}",
        "files/{id}",
        "files/{id}.json",
        "files/{id}.tar.json",
        "files/v{id}",
        "files/new",
        "files/{id}/{part}",
        "files/{id}/parts",
        "{all*}",
    ]);
    for (path, template) in [
        ("files/new", "files/new"),
        ("files/new2", "files/{id}"),
        ("files/a.json", "files/{id}.json"),
        ("files/a.tar.json", "files/{id}.tar.json"),
        ("files/v.tar.json", "files/{id}.tar.json"),
        ("files/v2", "files/v{id}"),
        ("files/v", "files/{id}"),
        ("files/new/parts", "files/{id}/parts"),
        ("files/new/x", "files/{id}/{part}"),
        ("files/new/x/y", "files/{path}"),
        ("files", "{all}"),
        ("FILES/new", "{all}"),
        ("%66iles/new", "{all}"),
    ] {
        let found = catalog.find(Method::Get, path).map(|found| found.route.template.as_str());
        assert_eq!(found, Some(template), "{path}");
    }
    for nothing in ["", "/", "files/", "files//new", "/files/new", "files/new/"] {
        assert!(catalog.find(Method::Get, nothing).is_none(), "{nothing:?}");
    }
    assert!(catalog.find(Method::Put, "files/new").is_none(), "another method has other routes");
}

#[test]
fn the_order_of_a_file_does_not_decide_which_entry_is_found() {
    let mut templates = ["a/{x}", "a/{x}.json", "a/b", "a/{x*}", "{x}/b", "a/b{x}", "{x*}"];
    let paths = ["a/b", "a/bc", "a/c", "a/c.json", "a/b.json", "a/b/c", "c/b", "c", "c/d"];
    let found = |ordered: &[&str]| -> Vec<String> {
        let catalog = gets(ordered);
        let name = |path| catalog.find(Method::Get, path).unwrap().route.name.clone();
        paths.map(name).to_vec()
    };

    let forward = found(&templates);
    templates.reverse();

    assert_eq!(found(&templates), forward);
}

#[test]
fn values_come_as_they_were_sent_with_the_names_of_the_entry_that_was_found() {
    let catalog = gets(&["users/@{name}/posts/{id}.json", "say/{words*}"]);
    for (path, expected) in [
        ("users/@ada/posts/7.json", vec![("name", "ada"), ("id", "7")]),
        ("users/@%40/posts/.json.json", vec![("name", "%40"), ("id", ".json")]),
        ("users/@@/posts/žluť.json", vec![("name", "@"), ("id", "žluť")]),
        ("say/a/%2F/…", vec![("words", "a/%2F/…")]),
    ] {
        assert_eq!(catalog.find(Method::Get, path).unwrap().parameters, expected, "{path}");
    }
}

#[test]
fn free_text_is_the_values_that_the_entry_names_and_no_others() {
    let lines = "free_text = [\"folder\", \"title\"]";
    let catalog = read(&route("GET", "of/{id}/in/{folder}/{title}.txt", lines));

    let found = catalog.find(Method::Get, "of/1%2F2/in/a%2Fb/c%2Fd.txt").unwrap();

    assert_eq!(found.free_text().collect::<Vec<_>>(), ["a%2Fb", "c%2Fd"]);
    let plain = gets(&["of/{id}"]);
    assert_eq!(plain.find(Method::Get, "of/1%2F2").unwrap().free_text().count(), 0);
}

const UPLOAD: &str =
    "kind = \"upload\"\nbody_rules = [{ kind = \"absent_anywhere\", field = \"a\" }]";

#[test]
fn an_upload_is_known_in_every_form_that_a_platform_may_read_as_its_path() {
    let catalog = read(&(route("POST", "media/upload", UPLOAD) + &route("GET", "media/{id}", "")));

    for path in
        ["media/upload", "media/upload/", "Media/UPLOAD", "media%2Fupload", "%6dedia/upload"]
    {
        assert!(catalog.is_upload(Method::Post, path), "{path}");
        assert!(!catalog.is_upload(Method::Put, path), "{path}");
        assert!(catalog.find(Method::Post, path).is_none(), "{path}: it is no native route");
    }
    for path in
        ["", "/", "media", "media/upload//", "media/upload/x", "/media/upload", "media%252Fupload"]
    {
        assert!(!catalog.is_upload(Method::Post, path), "{path}");
    }
    assert_eq!(catalog.upload().map(|upload| upload.name.as_str()), Some("POST media/upload"));
    assert_eq!(catalog.find(Method::Get, "media/upload").unwrap().parameters, [("id", "upload")]);
    assert!(!gets(&["media/upload"]).is_upload(Method::Get, "media/upload"));
}

#[test]
fn what_the_gateway_alone_calls_is_neither_listed_nor_found() {
    let catalog =
        read(&(route("GET", "inner/{id}", "kind = \"internal\"") + &route("GET", "a", "")));

    assert_eq!((catalog.routes().len(), catalog.operations().len()), (1, 1));
    assert_eq!(catalog.internal_routes()[0].name, "GET inner/{id}");
    assert!(!catalog.internal_routes()[0].is_native());
    assert!(catalog.find(Method::Get, "inner/7").is_none());
}

#[test]
fn a_route_knows_its_parameters_and_which_of_them_spans_segments() {
    for (template, names, spanning, shape) in [
        ("me", vec![], None, "me"),
        ("a/{b}/c/{d*}", vec!["b", "d"], Some("d"), "a/{}/c/{}"),
        ("a/{b}", vec!["b"], None, "a/{}"),
        ("@{b}/{c}.json/", vec!["b", "c"], None, "@{}/{}.json/"),
    ] {
        let route = only(template, "");

        assert_eq!(route.parameter_names().collect::<Vec<_>>(), names, "{template}");
        assert_eq!(route.spanning_parameter(), spanning, "{template}");
        assert_eq!(route.shape(), shape, "{template}");
        assert_eq!(route.name, format!("GET {}", template.replace('*', "")));
    }
}

#[test]
fn a_search_looks_at_what_a_reader_sees_of_a_route_in_whatever_case() {
    let route = only(
        "Boards/{board_id}/notes",
        "group = \"Überblick\"\ndescription = \"Lists NOTES.\"\nnotes = \"Slow on Mondays.\"\n\
         operation_id = \"listNotes\"\nscopes = [\"read:board\"]\nquery = [{ name = \"since\" }]",
    );

    for there in ["boards/", "BOARD_ID", "überBLICK", "lists notes", "mondays", "LISTnotes", ""] {
        assert!(route.mentions(there), "{there}");
    }
    for missing in ["GET", "read:board", "since", "notes lists", "notes  ", "ueberblick"] {
        assert!(!route.mentions(missing), "{missing}");
    }
}

#[test]
fn who_sets_a_query_parameter_is_known_of_defaults_and_of_what_shorthands_fill_in() {
    let fills =
        "shorthand = { target = \"reels\", fills = [{ name = \"user_id\", value = \"{id}\" }] }";
    let catalog = read(
        &(route("GET", "reels/mine", fills)
            + &route("GET", "list", "default_query = [{ name = \"limit\", value = \"5\" }]")
            + &route("GET", "other", "query = [{ name = \"sort\" }]")),
    );

    assert_eq!(catalog.setter_of("user_id"), Some(ParameterSetter::Route("GET reels/mine")));
    assert_eq!(catalog.setter_of("limit"), Some(ParameterSetter::Route("GET list")));
    for free in ["sort", "Limit", "user", ""] {
        assert_eq!(catalog.setter_of(free), None, "{free}");
    }
}

#[test]
fn parameters_that_are_called_like_the_gateways_own_have_another_name_in_documents() {
    let catalog =
        gets(&["of/{account}/{id}", "by/{account}/{platform_account}", "x/{account}.json"]);

    let shown: Vec<(&str, Vec<&str>)> = catalog
        .operations()
        .map(|(_, named)| {
            (named.path.as_str(), named.parameters.iter().map(String::as_str).collect())
        })
        .collect();

    assert_eq!(
        shown,
        [
            ("/v1/{account}/native/of/{platform_account}/{id}", vec!["platform_account", "id"]),
            (
                "/v1/{account}/native/by/{platform_account_}/{platform_account}",
                vec!["platform_account_", "platform_account"]
            ),
            ("/v1/{account}/native/x/{platform_account}.json", vec!["platform_account"]),
        ]
    );
}
