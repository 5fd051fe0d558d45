//! An operator's own catalogue file beside the built-in one.

use catalog::Catalog;
use domain::method::Method;
use domain::platform::Platform;

fn with(platform: Platform, toml: &str) -> Result<Catalog, catalog::CatalogError> {
    Catalog::built_in().unwrap().with_extra(platform, toml)
}

#[test]
fn a_further_route_is_found_and_listed_last() {
    let catalog = with(
        Platform::ALPHA,
        "[[routes]]\nmethod = \"GET\"\ntemplate = \"promotions/{id}\"\nverified = true\n",
    )
    .unwrap();

    let alpha = catalog.platform(Platform::ALPHA);
    let last = alpha.routes().last().unwrap();
    assert_eq!((alpha.routes().len(), last.name.as_str()), (79, "GET promotions/{id}"));
    assert!(last.verified);
    assert_eq!(alpha.find(Method::Get, "promotions/7").unwrap().route, last);
}

#[test]
fn an_entry_for_the_same_paths_replaces_the_one_before_in_its_place() {
    let text =
        "[[routes]]\nmethod = \"POST\"\ntemplate = \"users/{id}/restrict\"\ngroup = \"own\"\n";

    let catalog = with(Platform::ALPHA, text).unwrap();

    let alpha = catalog.platform(Platform::ALPHA);
    let found = alpha.find(Method::Post, "users/7/restrict").unwrap();
    assert_eq!(alpha.routes().len(), 78);
    assert_eq!((found.route.group.as_str(), found.parameters), ("own", vec![("id", "7")]));
}

#[test]
fn a_public_entry_may_stand_beside_an_internal_one() {
    let catalog =
        with(Platform::BETA, "[[routes]]\nmethod = \"GET\"\ntemplate = \"message\"\n").unwrap();

    let beta = catalog.platform(Platform::BETA);
    assert!(beta.find(Method::Get, "message").is_some());
    assert_eq!(beta.internal_routes().len(), 2);
}

#[test]
fn an_auth_field_of_the_same_name_is_replaced() {
    let text = "[[auth_fields]]\nname = \"device_id\"\nkind = \"string\"\nrequired = true\nsecret = true\n\
                bytes_max = 9\ndescription = \"\"\n";

    let catalog = with(Platform::BETA, text).unwrap();

    let fields = catalog.platform(Platform::BETA).auth_fields();
    assert_eq!((fields.len(), fields[1].required, fields[1].bytes_max), (2, true, 9));
}

fn replaced(platform: Platform, toml: &str) -> Result<Catalog, catalog::CatalogError> {
    Catalog::built_in().unwrap().with_replacement(platform, toml)
}

#[test]
fn a_replacement_has_the_routes_of_the_file_alone() {
    let catalog =
        replaced(Platform::ALPHA, "[[routes]]\nmethod = \"GET\"\ntemplate = \"repos/{id}.json\"\n");

    let built_in = Catalog::built_in().unwrap();
    let (alpha, before) = (catalog.unwrap(), built_in.platform(Platform::ALPHA));
    let alpha = alpha.platform(Platform::ALPHA);
    assert_eq!((alpha.routes().len(), alpha.internal_routes().len()), (1, 0));
    assert!(alpha.find(Method::Get, "users/me").is_none());
    assert_eq!(alpha.find(Method::Get, "repos/7.json").unwrap().parameters, [("id", "7")]);
    assert_eq!(alpha.auth_fields(), before.auth_fields());
    assert!(alpha.datasets().is_empty() && !before.datasets().is_empty());
}

#[test]
fn a_replacement_keeps_the_datasets_whose_routes_it_has() {
    let built_in = Catalog::built_in().unwrap();
    for platform in Platform::all() {
        let before = built_in.platform(platform);

        let again = replaced(platform, &before.to_toml()).unwrap();

        assert_eq!(again.platform(platform).to_toml(), before.to_toml(), "{platform}");
    }
    let route = "[[routes]]\nmethod = \"GET\"\ntemplate = \"messaging/groups\"\n";
    let beta = replaced(Platform::BETA, route).unwrap();
    let names: Vec<&str> =
        beta.platform(Platform::BETA).datasets().iter().map(|it| it.route.as_str()).collect();
    assert_eq!(names, ["messaging/groups"]);
}

#[test]
fn a_replacement_brings_its_own_auth_fields_and_datasets() {
    let text = "[[auth_fields]]\nname = \"key\"\nkind = \"string\"\nrequired = true\nsecret = true\n\
                bytes_max = 9\ndescription = \"\"\n[[routes]]\nmethod = \"GET\"\ntemplate = \"u/{name}.json\"\n\
                [[datasets]]\nname = \"chats\"\nroute = \"u/{name}.json\"\npath = [{ name = \"name\", value = \"{id}\" }]\n\
                rows = \"\"\nid = \"/a\"\ntime = { field = \"/t\", unit = \"unix_seconds\" }\n\
                paging = { style = \"offset\", parameter = \"p\", size_parameter = \"s\", size = 7 }\n";

    let catalog = replaced(Platform::BETA, text).unwrap();

    let beta = catalog.platform(Platform::BETA);
    let fields: Vec<&str> = beta.auth_fields().iter().map(|field| field.name.as_str()).collect();
    assert_eq!((fields, beta.datasets().len()), (vec!["key"], 1));
    assert_eq!(beta.datasets()[0].place("a/b", "").unwrap().path, "u/a%2Fb.json");
}

#[test]
fn a_replacement_without_routes_is_refused() {
    let refused = replaced(Platform::ALPHA, "media_archive = \"disabled\"\n").unwrap_err();

    assert!(refused.to_string().contains("merge it instead"), "{refused}");
}

#[test]
fn two_entries_for_the_same_paths_in_one_file_are_refused() {
    let entry = |template: &str| format!("[[routes]]\nmethod = \"GET\"\ntemplate = {template:?}\n");

    let refused = with(Platform::DELTA, &(entry("a/{x}") + &entry("a/{y}"))).unwrap_err();

    assert_eq!(
        refused.to_string(),
        "the catalogue of platform_delta: line 4: two entries are for GET a/{y}"
    );
}

#[test]
fn a_second_upload_and_two_fields_of_one_name_are_refused() {
    let upload = "[[routes]]\nmethod = \"POST\"\ntemplate = \"more/upload\"\nkind = \"upload\"\n";
    let field = "[[auth_fields]]\nname = \"a\"\nkind = \"string\"\nrequired = true\nsecret = true\n\
                 bytes_max = 9\ndescription = \"\"\n";

    assert!(with(Platform::GAMMA, upload).is_err());
    assert!(with(Platform::DELTA, upload).is_ok());
    assert!(with(Platform::DELTA, &field.repeat(2)).is_err());
}
