//! The commands of the catalogue: looked at, exported, imported and brought up to date.

use std::path::Path;

use serde_json::Value;

use crate::process::{fails, ok};

fn here() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A configuration in which alpha has this catalogue file.
fn configure(folder: &Path, catalogue: &str) {
    std::fs::write(folder.join("own.toml"), catalogue).unwrap();
    let config = "[platforms.platform_alpha]\nbase_url = \"http://127.0.0.1:9\"\ncatalog = \"own.toml\"\n\
                  [credits]\nread = 7\n";
    std::fs::write(folder.join("gateway.toml"), config).unwrap();
}

/// A document in YAML of one list, one write and one route that no catalogue can list.
const DOCUMENT: &str = "
openapi: 3.1.0
info: { title: Notes, version: '1' }
paths:
  /api/boards/{board}/notes:
    get:
      operationId: listNotes
      tags: [notes]
      summary: Lists notes.
      parameters:
        - { name: board, in: path, required: true, schema: { type: string } }
        - { name: limit, in: query, schema: { type: integer, maximum: 100, default: 20 } }
        - { name: cursor, in: query, schema: { type: string } }
      responses:
        200:
          content:
            application/json:
              schema:
                type: object
                required: [data]
                properties:
                  data: { type: array, items: { type: object } }
                  next_cursor: { type: string }
    post:
      deprecated: true
      requestBody:
        required: true
        content: { application/json: { schema: { type: object, properties: { text: { type: string } } } } }
      responses: { 201: {} }
  /api/compare/{a}...{b}: { get: {} }
";

#[test]
fn the_catalogue_is_listed_with_prices() {
    let folder = here();

    let all = ok(folder.path(), &["catalog", "list"]);
    let one = ok(folder.path(), &["catalog", "list", "platform_delta"]);

    for platform in ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta"] {
        assert!(all.contains(&format!("{platform}: ")), "{platform}");
    }
    assert!(all.contains(&one), "the list of one is a part of the list of all");
    let chats = one.lines().filter(|line| line.split_whitespace().nth(1) == Some("chats"));
    let told: Vec<Vec<&str>> =
        chats.map(|line| line.split_whitespace().take(3).collect()).collect();
    assert!(
        told.contains(&vec!["GET", "chats", "1"]) && told.contains(&vec!["POST", "chats", "2"]),
        "{told:?}"
    );
}

#[test]
fn a_route_is_shown_by_template_and_as_it_is_called() {
    let folder = here();

    let shorthand = ok(folder.path(), &["catalog", "show", "platform_gamma", "subscribers"]);
    let called = ok(folder.path(), &["catalog", "show", "platform_alpha", "chats/42/messages"]);
    let unknown = fails(folder.path(), &["catalog", "show", "platform_gamma", "no/such"]);

    assert!(shorthand.starts_with("GET subscribers\n"), "{shorthand}");
    assert!(
        shorthand.contains("stands for  user/{id}/") && shorthand.contains("added       limit=50"),
        "{shorthand}"
    );
    assert!(called.contains("GET chats/{chat_id}/messages\n"), "{called}");
    assert_eq!(
        unknown,
        "platform_gamma lists no route for no/such; it would be forwarded as it is\n"
    );
}

/// What an import makes is a catalogue file that a server takes.
#[test]
fn an_imported_document_becomes_routes_of_a_platform() {
    let folder = here();
    let folder = folder.path();
    let document = r#"{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/api/v1/things/{id}":
        {"get":{"tags":["things"],"summary":"One thing"}}}}"#;
    std::fs::write(folder.join("document.json"), document).unwrap();

    let file = ok(folder, &["catalog", "import", "document.json", "--prefix", "/api/v1"]);

    std::fs::write(folder.join("extra.toml"), &file).unwrap();
    let config = "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        [platforms.platform_alpha]\nbase_url = \"http://127.0.0.1:9\"\ncatalog = \"extra.toml\"\n";
    std::fs::write(folder.join("gateway.toml"), config).unwrap();
    assert!(ok(folder, &["check-config", "--config", "gateway.toml"]).ends_with("no problems\n"));
    let refused = fails(folder, &["catalog", "import", "extra.toml"]);
    assert!(
        refused.contains("extra.toml: the OpenAPI document: it is neither JSON nor YAML"),
        "{refused}"
    );
}

/// An exported catalogue is a file that the platform's `catalog` setting takes, whole or changed.
#[test]
fn an_exported_catalogue_is_taken_back() {
    let folder = here();
    let folder = folder.path();
    for platform in ["platform_alpha", "platform_gamma", "platform_delta"] {
        let exported = ok(folder, &["catalog", "export", platform]);
        std::fs::write(folder.join("exported.toml"), exported).unwrap();
        let config = format!(
            "[platforms.{platform}]\nbase_url = \"http://127.0.0.1:9\"\ncatalog = \"exported.toml\"\n"
        );
        std::fs::write(folder.join("gateway.toml"), config).unwrap();

        let said = ok(folder, &["check-config", "--config", "gateway.toml"]);

        assert!(said.ends_with("no problems\n"), "{platform}: {said}");
    }
}

/// What the operator's own file adds is shown as what is built in, with the prices of the
/// configuration.
#[test]
fn the_catalogue_of_a_configuration_is_listed_shown_and_exported() {
    let folder = here();
    let folder = folder.path();
    std::fs::write(folder.join("document.yaml"), DOCUMENT).unwrap();
    let file = ok(folder, &["catalog", "import", "document.yaml", "--prefix", "/api"]);
    configure(folder, &file);
    let with_config = |arguments: &[&str]| {
        let all: Vec<&str> = ["catalog"]
            .iter()
            .chain(arguments)
            .chain(&["--config", "gateway.toml"])
            .copied()
            .collect();
        ok(folder, &all)
    };

    let shown = with_config(&["show", "platform_alpha", "boards/7/notes"]);
    let exported = with_config(&["export", "platform_alpha"]);
    let listed = with_config(&["list", "platform_alpha", "--group", "NOTES"]);

    assert_eq!(
        listed,
        "platform_alpha: 1 of 80 routes; method, path, credits, group\n  \
         GET    boards/{board}/notes   7  notes\n"
    );
    for line in [
        "  operation   listNotes",
        "  {board}  string",
        "  ?limit (optional)  integer, at most 100, default 20",
        "  response    200 application/json",
        "      data (required)  list of object",
        "  paging      cursor, parameter cursor, size limit, rows at /data, next at /next_cursor \
         (guessed from names)",
        "  deprecated  yes",
        "  body        application/json (required)",
        "      text  string",
        "  response    201",
    ] {
        assert!(shown.lines().any(|known| known == line), "{line}\n{shown}");
    }
    assert!(exported.contains("operation_id = \"listNotes\"") && exported.contains("\"users/me\""));
    let plain = ok(folder, &["catalog", "list", "platform_alpha"]);
    assert!(!plain.contains("boards/"), "{plain}");
}

#[test]
fn routes_are_found_by_a_word_and_printed_as_json() {
    let folder = here();

    let listed = ok(folder.path(), &["catalog", "list", "--search", "MASS-mess", "--json"]);

    let routes: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert!(routes.len() > 3, "{listed}");
    for route in &routes {
        assert!(route.to_string().to_lowercase().contains("mass-mess"), "{route}");
        assert!(route["platform"].is_string() && route["credits"].is_i64(), "{route}");
    }
    let none = ok(folder.path(), &["catalog", "list", "--search", "no such words", "--json"]);
    assert_eq!(none, "[]\n");
}

#[test]
fn a_configuration_whose_catalogue_cannot_be_read_is_refused() {
    let folder = here();
    let folder = folder.path();
    configure(folder, "[[routes]]\nmethod = \"GET\"\ntemplate = \"a//b\"\n");

    let refused = fails(folder, &["catalog", "list", "--config", "gateway.toml"]);

    assert!(refused.contains("platforms.platform_alpha.catalog"), "{refused}");
    assert!(refused.contains("GET a//b: a segment is empty"), "{refused}");
}

#[test]
fn a_catalogue_file_is_brought_up_to_date() {
    let folder = here();
    let folder = folder.path();
    let imported = |text: &str| {
        std::fs::write(folder.join("document.yaml"), text).unwrap();
        ok(folder, &["catalog", "import", "document.yaml", "--prefix", "/api"])
    };
    let file =
        imported(DOCUMENT).replace("method = \"POST\"", "verified = true\nmethod = \"POST\"");
    std::fs::write(folder.join("own.toml"), &file).unwrap();
    let update = ["catalog", "update", "own.toml", "document.yaml", "--prefix", "/api"];
    let write: Vec<&str> = update.iter().chain(&["--write"]).copied().collect();

    let same = ok(folder, &update);
    imported(
        &DOCUMENT.replace("name: limit", "name: size").replace("deprecated: true", "tags: [n]"),
    );
    let differs = fails(folder, &update);
    let unchanged = std::fs::read_to_string(folder.join("own.toml")).unwrap();
    let written = ok(folder, &write);

    assert_eq!(same, "0 added, 0 removed, 0 changed\n");
    assert_eq!(
        differs,
        "~ GET boards/{board}/notes\n    query: size added, limit removed\n    \
         paging: cursor, its details differ\n\
         ~ POST boards/{board}/notes\n    no longer deprecated\n\
         0 added, 0 removed, 2 changed\n"
    );
    assert_eq!(unchanged, file);
    assert_eq!(written, format!("{differs}updated own.toml\n"));
    assert_eq!(ok(folder, &update), same);
    let updated = std::fs::read_to_string(folder.join("own.toml")).unwrap();
    assert!(updated.contains("verified = true") && updated.contains("\"size\""), "{updated}");
}

#[test]
fn a_route_that_the_document_lost_goes_unless_it_is_kept() {
    let folder = here();
    let folder = folder.path();
    std::fs::write(folder.join("document.yaml"), DOCUMENT).unwrap();
    let file = ok(folder, &["catalog", "import", "document.yaml"]);
    let own = "[[routes]]\nmethod = \"GET\"\ntemplate = \"own\"\n";
    std::fs::write(folder.join("own.toml"), file + own).unwrap();
    let update = ["catalog", "update", "own.toml", "document.yaml"];
    let keep: Vec<&str> = update.iter().chain(&["--keep-removed"]).copied().collect();

    assert_eq!(fails(folder, &update), "- GET own\n0 added, 1 removed, 0 changed\n");
    assert_eq!(
        ok(folder, &keep),
        "= GET own (not in the document, kept)\n0 added, 0 removed, 0 changed\n"
    );
}

#[test]
fn documents_that_cannot_be_imported_are_refused_with_the_reason() {
    let folder = here();
    let folder = folder.path();
    let refused = |bytes: &[u8]| {
        std::fs::write(folder.join("document"), bytes).unwrap();
        fails(folder, &["catalog", "import", "document"])
    };

    assert!(refused(b"swagger: '2.0'\npaths: {}\n").contains("it is Swagger 2; convert it"));
    assert!(refused(b"{\"openapi\": \"3.0.0\",}").contains("line 1 column"));
    assert!(refused(b"openapi: \xff").contains("document is not text in UTF-8"));
    assert!(refused(&vec![b' '; 33 * 1024 * 1024]).contains("larger than 32 MiB"));
    let missing = fails(folder, &["catalog", "import", "nowhere.yaml"]);
    assert!(missing.contains("nowhere.yaml cannot be read"), "{missing}");
}
