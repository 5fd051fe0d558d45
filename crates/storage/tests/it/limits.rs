//! What a storage does at its limits: long lists, files that changed, names that look alike.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use storage::{LIST_MAX, ObjectName, PutOutcome, Storage, StorageLocation, StorageSettings};

fn storage(folder: &tempfile::TempDir) -> Storage {
    let place = StorageLocation::Folder(folder.path().join("exports"));
    Storage::open(&StorageSettings { place, work_folder: PathBuf::new() }).unwrap()
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

async fn put(storage: &Storage, at: &str, content: &[u8]) -> PutOutcome {
    let work = storage.work_file("work").unwrap();
    work.file().write_all(content).unwrap();
    storage.put_file(&name(at), work).await.unwrap()
}

#[tokio::test]
async fn a_long_list_comes_in_pages_and_all_of_it_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(&folder);
    put(&storage, "e/0000/data", b"x").await;
    let root = folder.path().join("exports/e");
    for number in 1..LIST_MAX + 5 {
        std::fs::create_dir(root.join(format!("{number:04}"))).unwrap();
        std::fs::write(root.join(format!("{number:04}/data")), b"x").unwrap();
    }
    put(&storage, "kept/data", b"x").await;

    let first = storage.list(&name("e"), "").await.unwrap();
    let last = first.last().unwrap().name.to_string();
    let second = storage.list(&name("e"), &last).await.unwrap();

    assert_eq!((first.len(), second.len()), (LIST_MAX, 5));
    assert_eq!(second.first().unwrap().name, name("e/1000/data"));
    storage.delete_all(&name("e")).await.unwrap();
    assert!(!root.exists());
    assert!(storage.find(&name("kept/data")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_that_became_shorter_fails_a_download_instead_of_ending_it() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(&folder);
    put(&storage, "a/data", &[7; 1000]).await;
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join("exports/a/data"));
    file.unwrap().set_len(400).unwrap();

    let mut download = storage.read(&name("a/data"), 0..1000).await.unwrap().unwrap();

    assert_eq!(download.next().await.unwrap().unwrap().len(), 400);
    let error = download.next().await.unwrap_err();
    assert!(!error.retryable && !error.is_full, "{error}");
}

#[tokio::test]
async fn a_folder_on_the_way_to_something_is_nothing_stored() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(&folder);
    put(&storage, "a/b/data", b"x").await;

    for at in ["a", "a/b"] {
        assert_eq!(storage.find(&name(at)).await.unwrap(), None, "{at}");
        assert!(storage.read(&name(at), 0..1).await.unwrap().is_none(), "{at}");
        assert!(storage.segment(&name(at)).await.unwrap().is_none(), "{at}");
    }
    assert_eq!(put(&storage, "a/b", b"y").await, PutOutcome::Exists);
    assert_eq!(storage.find(&name("a/b/data")).await.unwrap().unwrap().bytes, 1);
}

#[tokio::test]
async fn what_was_put_into_the_folder_by_others_is_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(&folder);
    put(&storage, "a/data", b"x").await;
    let root = folder.path().join("exports/a");
    std::fs::write(root.join(".hidden"), b"x").unwrap();
    std::fs::write(root.join("two words"), b"x").unwrap();
    std::fs::write(root.join("é"), b"x").unwrap();
    std::os::unix::fs::symlink(root.join("data"), root.join("linked")).unwrap();

    let listed = storage.list(&name("a"), "").await.unwrap();

    let names: Vec<String> = listed.into_iter().map(|stored| stored.name.to_string()).collect();
    assert_eq!(names, ["a/data"]);
}

#[tokio::test]
async fn a_file_for_work_that_was_left_is_replaced_and_not_written_into() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(&folder);
    let left = storage.work_folder().join("exp_1-3");
    std::fs::write(&left, b"of a killed process").unwrap();
    let still_open = std::fs::OpenOptions::new().append(true).open(&left).unwrap();

    let work = storage.work_file("exp_1-3").unwrap();
    (&still_open).write_all(b" that goes on").unwrap();
    work.file().write_all(b"new").unwrap();

    assert_eq!(std::fs::read(work.path()).unwrap(), b"new");
    let mode = std::fs::metadata(work.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    work.empty().unwrap();
    work.file().write_all(b"ag").unwrap();
    assert_eq!(std::fs::read(work.path()).unwrap(), b"ag");
}

#[tokio::test]
async fn a_file_for_work_has_a_name_of_limited_length() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(&folder);
    let long = ["a"; 100].join("..");

    assert!(storage.work_file(&"a".repeat(128)).is_ok());
    let error = storage.work_file(&long).unwrap_err();
    assert!(!error.retryable, "{error}");
    for wrong in ["", "a/b", "a\0b", "..", "a b"] {
        assert!(storage.work_file(wrong).is_err(), "{wrong:?}");
    }
}

#[tokio::test]
async fn flushing_a_file_early_changes_nothing_about_it() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(&folder);
    let work = storage.work_file("exp_1-3").unwrap();
    work.file().write_all(b"begun").unwrap();

    storage.flush_early(&work).unwrap().await.unwrap();
    work.file().write_all(b" and ended").unwrap();

    assert_eq!(storage.put_file(&name("a/data"), work).await.unwrap(), PutOutcome::Stored);
    let mut text = String::new();
    let stored = std::fs::File::open(folder.path().join("exports/a/data"));
    stored.unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "begun and ended");
    assert_eq!(std::fs::read_dir(storage.work_folder()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_segment_that_was_removed_can_be_begun_again_and_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(&folder);
    let at = name("exports/a/1/spool");
    let segment = storage.begin_segment(&at).await.unwrap().unwrap();
    assert!(segment.append(0, b"first").unwrap().is_none());
    storage.delete_segment(&at).await.unwrap();
    storage.delete_segment(&at).await.unwrap();

    let again = storage.begin_segment(&at).await.unwrap().unwrap();
    assert!(segment.append(1, b"late").unwrap().is_none());

    let mut text = String::new();
    again.reader().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
}
