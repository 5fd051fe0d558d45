//! Finished files: their contents, who can download them, and how long a link works.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{created, id_of, made, record, ten};
use test_service::{Client, TestApp, with_app};

/// The names of all objects in the storage.
pub(super) fn stored(app: &TestApp) -> Vec<String> {
    fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            let path = entry.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
                continue;
            }
            if path.is_dir() {
                walk(&path, root, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    let root = app.exports_folder();
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    found
}

/// The link in a record, as path and query.
pub(super) fn link(export: &Value) -> String {
    let url = export["download_url"].as_str().unwrap();
    format!("/v1/{}", url.split_once("/v1/").unwrap().1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_dataset_of_every_platform_can_be_exported() {
    let app = TestApp::on_sqlite("").await;
    let sets: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("platform_alpha", &["subscribers", "transactions", "chats"][..]),
        ("platform_beta", &["subscribers", "subscriptions", "following", "chats"]),
        ("platform_gamma", &["subscribers", "transactions", "chats", "following"]),
        ("platform_delta", &["subscribers", "chats", "transactions"]),
    ]);
    for (platform, datasets) in sets {
        let (_, client, account) = app.ready(platform, 1_000).await;
        for dataset in datasets {
            let wish = json!({"dataset": dataset, "fmt": "jsonl", "max_rows": 120});
            let export = made(&app, &client, &account, &wish).await;
            assert_eq!(export["status"], "completed", "{platform} {dataset}: {export}");
            let path = format!("/v1/exports/{}/download", id_of(&export));
            let file = client.get(&path).await;
            let lines = String::from_utf8(file.body.to_vec()).unwrap();
            assert_eq!(lines.lines().count() as u64, export["rows"].as_u64().unwrap());
            assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
        }
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_format_matches_its_record() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_beta", 100).await;
        for (fmt, media_type, begins) in [
            ("csv", "text/csv; charset=utf-8", &b""[..]),
            ("jsonl", "application/x-ndjson", b"{"),
            ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", b"PK"),
            ("zip", "application/zip", b"PK"),
        ] {
            let export = made(&app, &client, &account, &ten(fmt)).await;
            let id = id_of(&export);

            let file = client.get(&format!("/v1/exports/{id}/download")).await;

            assert_eq!(file.status, 200, "{}", file.text());
            assert_eq!(file.header("content-type"), media_type);
            let name = format!("attachment; filename=\"export-{id}.{fmt}\"");
            assert_eq!(file.header("content-disposition"), name);
            assert!(file.body.starts_with(begins), "{fmt}");
            assert_eq!(export["bytes"].as_u64(), Some(file.body.len() as u64));
            assert_eq!(export["sha256"], hex::encode(Sha256::digest(&file.body)));
        }
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_csv_file_has_a_byte_order_mark_only_on_request() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_beta", 100).await;
        let mut files = Vec::new();
        for csv_bom in [json!(null), json!(false), json!(true)] {
            let mut wish = ten("csv");
            wish["csv_bom"] = csv_bom.clone();
            if csv_bom.is_null() {
                wish.as_object_mut().unwrap().remove("csv_bom");
            }
            let export = made(&app, &client, &account, &wish).await;
            assert_eq!(export["csv_bom"], csv_bom == json!(true), "{export}");

            let file = client.get(&format!("/v1/exports/{}/download", id_of(&export))).await;

            assert_eq!(export["sha256"], hex::encode(Sha256::digest(&file.body)));
            files.push(String::from_utf8(file.body.to_vec()).unwrap());
        }
        assert_eq!(files[0], files[1]);
        assert_eq!(files[2].strip_prefix('\u{feff}'), Some(files[0].as_str()));
        // `false` is allowed with every format.
        let mut wish = ten("jsonl");
        wish["csv_bom"] = json!(false);
        assert_eq!(client.post(&format!("/v1/{account}/exports"), &wish).await.status, 201);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_opens_only_its_file_and_for_five_minutes() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 20).await;
        let export = made(&app, &client, &account, &ten("csv")).await;
        let other = made(&app, &client, &account, &ten("csv")).await;
        let anybody = app.anonymous();
        let path = link(&export);

        let file = anybody.get(&path).await;
        assert_eq!(file.status, 200, "{}", file.text());
        assert_eq!(export["sha256"], hex::encode(Sha256::digest(&file.body)));

        let refused = async |caller: &Client, method: &str, tried: &str| {
            let reply = caller.send(method, tried, None).await;
            assert_eq!(reply.status, 403, "{method} {tried}: {}", reply.text());
        };
        let (base, query) = path.split_once('?').unwrap();
        let replaced = |from: &str, to: &str| path.replacen(from, to, 1);
        refused(&anybody, "GET", &replaced(id_of(&export), id_of(&other))).await;
        refused(&anybody, "GET", &replaced("token=1", "token=2")).await;
        refused(&anybody, "GET", &replaced("exp=1", "exp=2")).await;
        refused(&anybody, "GET", &format!("{path}&fmt=xlsx")).await;
        refused(&anybody, "GET", &format!("{base}?token=1")).await;
        refused(&anybody, "GET", &path[..path.len() - 1]).await;
        // A key does not make an invalid link valid.
        refused(&client, "GET", &format!("{base}?x{query}")).await;
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let reply = anybody.send(method, &path, None).await;
            assert_eq!(reply.status, 405, "{method}");
        }

        app.advance_seconds(299);
        assert_eq!(anybody.get(&path).await.status, 200);
        app.advance_seconds(1);
        refused(&anybody, "GET", &path).await;
        let fresh = link(&record(&client, id_of(&export)).await);
        assert_eq!(anybody.get(&fresh).await.status, 200);
        assert_eq!(client.delete(&format!("/v1/exports/{}", id_of(&export))).await.status, 204);
        refused(&anybody, "GET", &fresh).await;
        assert_eq!(
            client.get("/v1/billing").await.json()["balance"],
            0,
            "downloads must cost nothing"
        );
        app
    })
    .await;
}

/// Download managers request the headers first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_returns_the_headers_of_a_download_and_no_body() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 20).await;
        let export = Box::pin(made(&app, &client, &account, &ten("csv"))).await;
        let by_link = link(&export);
        let by_key = format!("/v1/exports/{}/download", id_of(&export));

        for (caller, path) in [(app.anonymous(), &by_link), (client.clone(), &by_key)] {
            let file = caller.get(path).await;
            let head = caller.send("HEAD", path, None).await;
            let part = caller.with("range", "bytes=0-3").send("HEAD", path, None).await;

            assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            for name in
                ["content-length", "content-type", "content-disposition", "accept-ranges", "etag"]
            {
                assert_eq!(head.header(name), file.header(name), "{name}");
                assert!(!head.header(name).is_empty(), "{name}");
            }
            assert_eq!(head.header("content-length"), file.body.len().to_string());
            assert_eq!((part.status, part.header("content-range")), (200, ""));
        }
        let broken = &by_link[..by_link.len() - 1];
        assert_eq!(app.anonymous().send("HEAD", broken, None).await.status, 403);
        assert_eq!(app.anonymous().send("HEAD", &by_key, None).await.status, 401);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_range_is_served_and_several_are_refused() {
    let app = TestApp::on_sqlite("").await;
    let (_, client, account) = app.ready("platform_alpha", 20).await;
    let export = made(&app, &client, &account, &ten("jsonl")).await;
    let path = format!("/v1/exports/{}/download", id_of(&export));
    let whole = client.get(&path).await;
    let length = whole.body.len();
    assert_eq!((whole.header("accept-ranges"), whole.header("etag").len()), ("bytes", 66));

    let part = client.with("range", "bytes=5-9").get(&path).await;
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[5..10]));
    assert_eq!(part.header("content-range"), format!("bytes 5-9/{length}"));
    let end = client.with("range", "bytes=-3").get(&link(&export)).await;
    assert_eq!((end.status, &end.body[..]), (206, &whole.body[length - 3..]));
    let behind = client.with("range", &format!("bytes={length}-")).get(&path).await;
    assert_eq!(behind.failure(), (416, "range_not_satisfiable".to_owned()));
    assert_eq!(behind.header("content-range"), format!("bytes */{length}"));
    let several = client.with("range", "bytes=0-,0-").get(&path).await;
    assert_eq!(several.failure(), (416, "several_ranges".to_owned()));
    let many = client.with("range", &format!("bytes=0-{}", ",0-".repeat(1_000))).get(&path).await;
    assert_eq!(many.status, 416);
    let head = client.send("HEAD", &path, None).await;
    assert_eq!((head.status, head.header("content-length")), (200, length.to_string().as_str()));
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphaned_objects_are_removed_after_a_day_and_published_files_stay() {
    with_app(async |app| {
        let (_, client, account) = app.ready("platform_alpha", 20).await;
        let export = made(&app, &client, &account, &ten("csv")).await;
        let published = stored(&app);
        let folder = app.exports_folder().join("exports");
        let zombie = folder.join(id_of(&export)).join("9");
        let stranger = folder.join("exp_01890000000070008000000000000000").join("1");
        for lost in [&zombie, &stranger] {
            std::fs::create_dir_all(lost).unwrap();
            std::fs::write(lost.join("data.csv"), b"half").unwrap();
        }
        assert_eq!(
            app.running().remove_orphans().await,
            Some(0),
            "recent objects may still be in use"
        );

        // The age of files follows the machine's clock, which differs much from the service's in
        // this test.
        let day_ago = std::time::SystemTime::UNIX_EPOCH;
        for lost in [&zombie, &stranger] {
            let file = std::fs::File::options().write(true).open(lost.join("data.csv")).unwrap();
            file.set_modified(day_ago).unwrap();
        }

        assert_eq!(app.running().remove_orphans().await, Some(2));
        assert_eq!(stored(&app), published);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_the_export_did_not_store_is_neither_overwritten_nor_published() {
    with_app(async |app| {
        // Given an object with the name under which the export's first claim would store its file
        let (_, client, account) = app.ready("platform_alpha", 20).await;
        let id = created(&client, &account, &ten("csv")).await;
        let folder = app.exports_folder().join("exports").join(&id);
        std::fs::create_dir_all(folder.join("1")).unwrap();
        std::fs::write(folder.join("1/data.csv"), b"not ours").unwrap();
        let path = format!("/v1/exports/{id}/download");

        // When the export runs
        app.run_exports().await;

        // Then it is retried later, and the object is unchanged
        assert_eq!(client.get(&path).await.failure(), (409, "export_not_ready".to_owned()));
        assert_eq!(std::fs::read(folder.join("1/data.csv")).unwrap(), b"not ours");

        // And the next claim publishes its own file under its own name
        app.advance_seconds(60);
        app.run_exports().await;
        let export = record(&client, &id).await;
        let file = client.get(&path).await;
        assert_eq!(export["status"], "completed", "{export}");
        assert_eq!(export["sha256"], hex::encode(Sha256::digest(&file.body)));
        app.running().clean_up_exports().await;
        assert_eq!(stored(&app), [format!("exports/{id}/2/data.csv")]);
        app
    })
    .await;
}

/// Resume points as a newer version might write them: a version that does not know all their fields
/// must not resume from them.
fn with_points_of_another_version(spool: &Path) {
    let mut frames = tabular::SpoolReader::new([std::fs::File::open(spool).unwrap()]).unwrap();
    let mut writer = tabular::SpoolWriter::new(Vec::new(), tabular::SpooledPages::default());
    while let Some(frame) = frames.next_frame().unwrap() {
        let mut point: Value = serde_json::from_slice(frame.resume_point()).unwrap();
        point["of_another_version"] = json!(1);
        writer.append(point.to_string().as_bytes(), frame.rows()).unwrap();
    }
    std::fs::write(spool, writer.finish().0).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_with_pages_spooled_by_another_version_starts_again() {
    with_app(async |app| {
        // Given an export whose first claim spooled all pages and could not store its file
        let (_, client, account) = app.ready("platform_alpha", 20).await;
        let wish = json!({"dataset": "subscribers", "fmt": "jsonl"});
        let undisturbed = created(&client, &account, &wish).await;
        app.run_exports().await;
        let id = created(&client, &account, &wish).await;
        let folder = app.exports_folder().join("exports").join(&id);
        std::fs::create_dir_all(folder.join("1")).unwrap();
        std::fs::write(folder.join("1/data.jsonl"), b"not ours").unwrap();
        app.run_exports().await;

        // When its spool is another version's
        with_points_of_another_version(&folder.join("1/spool"));
        app.advance_seconds(60);
        app.run_exports().await;

        // Then it is read again from the start
        let (export, whole) = (record(&client, &id).await, record(&client, &undisturbed).await);
        assert_eq!(export["status"], "completed", "{export}");
        assert_eq!(export["sha256"], whole["sha256"]);
        assert_eq!(export["rows"], whole["rows"]);
        app
    })
    .await;
}
