//! The files that pages load.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use sha2::{Digest as _, Sha256};

use crate::{state, text};

#[tokio::test]
async fn each_file_is_sent_with_its_type_under_a_name_that_is_made_of_its_content() {
    let state = state("");
    let assets = state.assets();
    for (path, ending, media_type) in [
        (assets.style_path(), "css", "text/css; charset=utf-8"),
        (assets.script_path(), "js", "text/javascript; charset=utf-8"),
        (assets.icon_path(), "svg", "image/svg+xml; charset=utf-8"),
    ] {
        let response = assets.respond(path.strip_prefix("/assets/").unwrap()).unwrap();

        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], media_type);
        assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(response.headers()[CACHE_CONTROL], "public, max-age=31536000, immutable");
        let digest = hex::encode(Sha256::digest(text(response).await));
        assert_eq!(path, format!("/assets/console-{}.{ending}", &digest[..16]));
    }
}

#[test]
fn what_is_no_file_of_this_build_is_not_found() {
    let state = state("");
    let assets = state.assets();
    let name = assets.style_path().strip_prefix("/assets/").unwrap();
    for other in [
        "",
        "/",
        "console.css",
        "console-0000000000000000.css",
        "../Cargo.toml",
        assets.style_path(),
        &format!("{name}/"),
        &format!("{name}?x"),
        &name.to_uppercase(),
        &name[..name.len() - 1],
    ] {
        assert!(assets.respond(other).is_none(), "{other}");
    }
}

#[test]
fn a_color_of_the_operator_changes_the_files_that_show_it_and_no_other() {
    let usual = state("");
    let (light, dark) =
        (state("[brand]\naccent.light = \"#aa0011\""), state("[brand]\naccent.dark = \"#ffcc00\""));
    let paths = |state: &pages::PagesState| {
        let assets = state.assets();
        [assets.style_path(), assets.icon_path(), assets.script_path()].map(str::to_owned)
    };

    let (usual, light, dark) = (paths(&usual), paths(&light), paths(&dark));

    let changed = |other: &[String; 3]| [0, 1, 2].map(|at| usual[at] != other[at]);
    assert_eq!(changed(&light), [true, true, false]);
    assert_eq!(changed(&dark), [true, false, false]);
}
