//! Storage in a folder: what is stored is whole, stays as it is, and lies where only its owner
//! reaches it.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::time::Timestamp;
use storage::{ObjectName, PutOutcome, Storage, StorageError, StorageLocation, StorageSettings};
use tokio::task::JoinSet;

/// A storage in a fresh folder.
fn storage(folder: &Path) -> Storage {
    let place = StorageLocation::Folder(folder.join("exports"));
    Storage::open(&StorageSettings { place, work_folder: PathBuf::new() }).unwrap()
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

async fn put(storage: &Storage, at: &str, content: &[u8]) -> Result<PutOutcome, StorageError> {
    let work = storage.work_file("work").unwrap();
    work.file().write_all(content).unwrap();
    storage.put_file(&name(at), work).await
}

async fn content(storage: &Storage, at: &str) -> Option<Vec<u8>> {
    let stored = storage.find(&name(at)).await.unwrap()?;
    range(storage, at, 0..stored.bytes).await
}

async fn range(storage: &Storage, at: &str, range: std::ops::Range<u64>) -> Option<Vec<u8>> {
    let mut download = storage.read(&name(at), range).await.unwrap()?;
    let mut content = Vec::new();
    while let Some(part) = download.next().await.unwrap() {
        content.extend_from_slice(&part);
    }
    Some(content)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn what_is_stored_is_given_back_whole_and_in_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    let data: Vec<u8> = (0..700_000_u32).map(|number| number.to_le_bytes()[0]).collect();

    assert_eq!(put(&storage, "exports/a/1/data.csv", &data).await.unwrap(), PutOutcome::Stored);

    assert_eq!(content(&storage, "exports/a/1/data.csv").await.unwrap(), data);
    assert_eq!(
        range(&storage, "exports/a/1/data.csv", 699_990..700_000).await.unwrap(),
        data[699_990..]
    );
    assert_eq!(range(&storage, "exports/a/1/data.csv", 7..7).await.unwrap(), b"");
    assert!(content(&storage, "exports/a/1/data").await.is_none());
    assert!(content(&storage, "exports/b/1/data.csv").await.is_none());
}

#[tokio::test]
async fn a_name_that_is_taken_keeps_what_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());

    assert_eq!(put(&storage, "a/data", b"first").await.unwrap(), PutOutcome::Stored);
    assert_eq!(put(&storage, "a/data", b"second").await.unwrap(), PutOutcome::Exists);

    assert_eq!(content(&storage, "a/data").await.unwrap(), b"first");
}

#[tokio::test]
async fn of_many_that_store_under_one_name_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(storage(folder.path()));

    let mut tries = JoinSet::new();
    for number in 0..8_u8 {
        let storage = Arc::clone(&storage);
        tries.spawn(async move {
            let work = storage.work_file(&format!("work-{number}")).unwrap();
            work.file().write_all(&[number; 1000]).unwrap();
            storage.put_file(&name("a/b/data"), work).await.unwrap()
        });
    }
    let stored =
        tries.join_all().await.into_iter().filter(|put| *put == PutOutcome::Stored).count();

    assert_eq!(stored, 1);
    let found = content(&storage, "a/b/data").await.unwrap();
    assert!(found.len() == 1000 && found.iter().all(|byte| *byte == found[0]));
}

#[tokio::test]
async fn only_its_owner_reaches_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("exports");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o777)).unwrap();

    let storage = storage(folder.path());
    put(&storage, "a/data", b"x").await.unwrap();

    assert_eq!([mode(&root), mode(&root.join("a")), mode(&root.join(".work"))], [0o700; 3]);
    assert_eq!(mode(&root.join("a/data")), 0o600);
}

#[tokio::test]
async fn a_symbolic_link_in_the_folder_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    let root = folder.path().join("exports");
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("data"), b"secret").unwrap();
    symlink(&outside, root.join("linked")).unwrap();
    std::fs::create_dir(root.join("a")).unwrap();
    symlink(outside.join("data"), root.join("a/data")).unwrap();

    for at in ["linked/data", "a/data"] {
        assert!(storage.find(&name(at)).await.is_err(), "{at}");
        assert!(storage.read(&name(at), 0..6).await.is_err(), "{at}");
    }
    assert!(put(&storage, "linked/new", b"x").await.is_err());
    assert!(storage.begin_segment(&name("linked/spool")).await.is_err());
    assert_eq!(put(&storage, "a/data", b"x").await.unwrap(), PutOutcome::Exists);
    assert!(storage.delete(&name("linked/data")).await.is_err());
    storage.delete(&name("a/data")).await.unwrap();
    assert_eq!(
        storage.list(&name("linked"), "").await.map(|found| found.len()).unwrap_or_default(),
        0
    );

    assert_eq!(std::fs::read(outside.join("data")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[tokio::test]
async fn what_is_removed_is_gone_with_the_folders_that_it_leaves_empty() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    put(&storage, "exports/a/1/data", b"x").await.unwrap();
    put(&storage, "exports/a/2/data", b"x").await.unwrap();

    storage.delete(&name("exports/a/1/data")).await.unwrap();
    storage.delete(&name("exports/a/1/data")).await.unwrap();
    storage.delete(&name("exports/never/data")).await.unwrap();
    assert!(!folder.path().join("exports/exports/a/1").exists());
    assert_eq!(content(&storage, "exports/a/2/data").await.unwrap(), b"x");

    storage.delete_all(&name("exports")).await.unwrap();
    assert!(!folder.path().join("exports/exports").exists());
    put(&storage, "exports/a/1/data", b"again").await.unwrap();
}

#[tokio::test]
async fn a_list_is_in_the_order_of_names_and_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    let mut names =
        vec!["e/a.b".to_owned(), "e/a-1/x".to_owned(), "e/a/z".to_owned(), "e/a0".to_owned()];
    names.extend((0..20).map(|number| format!("e/b/{number:02}/data")));
    for at in &names {
        put(&storage, at, b"x").await.unwrap();
    }
    put(&storage, "other/data", b"x").await.unwrap();
    names.sort();

    let listed = |after: String| {
        let storage = &storage;
        async move {
            let found = storage.list(&name("e"), &after).await.unwrap();
            found.into_iter().map(|stored| stored.name.to_string()).collect::<Vec<_>>()
        }
    };

    assert_eq!(listed(String::new()).await, names);
    for (index, at) in names.iter().enumerate() {
        assert_eq!(listed(at.clone()).await, names[index + 1..], "after {at}");
    }
    assert!(storage.list(&name("nothing"), "").await.unwrap().is_empty());
}

#[tokio::test]
async fn files_for_work_are_gone_when_they_are_done_with_and_left_ones_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    let path = {
        let work = storage.work_file("exp_1-3").unwrap();
        assert!(work.path().exists());
        work.path().to_owned()
    };
    assert!(!path.exists());
    std::fs::write(storage.work_folder().join("left"), b"x").unwrap();

    let now = std::fs::metadata(storage.work_folder().join("left")).unwrap().modified().unwrap();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let at =
        |seconds: u64| Timestamp::from_unix_micros(i64::try_from(seconds).unwrap() * 1_000_000);

    assert_eq!(storage.remove_left_work(at(now - 10)).unwrap(), 0);
    assert_eq!(storage.remove_left_work(at(now + 10)).unwrap(), 1);
    assert!(storage.work_file("../x").is_err());
    assert!(storage.work_file("a/b").is_err());
    assert!(storage.work_file(".hidden").is_err());
}

#[tokio::test]
async fn a_segment_is_begun_once_and_read_by_whoever_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path());
    let at = name("exports/a/1/spool");
    let segment = storage.begin_segment(&at).await.unwrap().unwrap();

    assert!(segment.append(0, b"first").unwrap().is_none());
    let mut early = segment.reader().unwrap();
    assert!(segment.append(1, b"second").unwrap().is_none());

    let mut before = String::new();
    early.read_to_string(&mut before).unwrap();
    assert_eq!(before, "first");
    assert!(storage.begin_segment(&at).await.unwrap().is_none());
    let other = storage.segment(&at).await.unwrap().unwrap();
    let mut text = String::new();
    other.reader().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "firstsecond");
    assert!(storage.segment(&name("exports/a/2/spool")).await.unwrap().is_none());

    storage.delete_segment(&at).await.unwrap();
    assert!(storage.segment(&at).await.unwrap().is_none());
}
