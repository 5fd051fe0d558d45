//! Storage in buckets of stores that others made. `scripts/storage-test` starts the stores, says
//! where they are, and runs these tests; the feature `stores` keeps them from those that need
//! nothing.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use storage::PutOutcome;

use bucket_storage::{MEBIBYTE, SECONDS, TestBucket, bucket_at, content, name};

#[path = "it/bucket_storage.rs"]
mod bucket_storage;

/// Where the store is.
const ENDPOINT: &str = "CREATOR_GATEWAY_TEST_S3";
impl TestBucket {
    /// Of the store that a script has started.
    fn started() -> Self {
        // scripts/storage-test says where it is.
        let endpoint = std::env::var(ENDPOINT).unwrap();
        bucket_at(&endpoint, "test-secret", Duration::from_mins(1))
    }

    async fn range(&self, at: &str, range: std::ops::Range<u64>) -> Option<Vec<u8>> {
        let mut download = self.storage.read(&name(at), range).await.unwrap()?;
        let mut content = Vec::new();
        while let Some(part) = download.next().await.unwrap() {
            content.extend_from_slice(&part);
        }
        Some(content)
    }

    async fn signed(&self, at: &str, valid_for: Duration) -> String {
        let at = name(at);
        let signed = self.storage.presign_get(&at, valid_for, "export-1.csv", "text/csv");
        signed.await.unwrap().unwrap()
    }

    async fn bytes(&self, at: &str) -> Option<u64> {
        self.storage.find(&name(at)).await.unwrap().map(|stored| stored.bytes)
    }
}

/// An answer on a connection of its own: its status, its headers and its body.
fn get(url: &str) -> (u16, BTreeMap<String, String>, Vec<u8>) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = Vec::new();
    reader.read_to_end(&mut body).unwrap();
    (status, headers, body)
}

#[tokio::test]
async fn what_is_stored_is_given_back_whole_and_in_ranges() {
    let bucket = TestBucket::started();
    for (at, length) in [("r/empty", 0), ("r/small", 1_000), ("r/large", 20 * MEBIBYTE + 17)] {
        let data = content(length);
        let end = length as u64;

        assert_eq!(bucket.put(at, &data).await.unwrap(), PutOutcome::Stored, "{at}");

        assert_eq!(bucket.bytes(at).await, Some(end), "{at}");
        assert!(bucket.range(at, 0..end).await.unwrap() == data, "{at}");
        let from = length.saturating_sub(9);
        assert_eq!(bucket.range(at, from as u64..end).await.unwrap(), data[from..], "{at}");
    }
    assert_eq!(bucket.bytes("r/never").await, None);
    assert!(bucket.range("r/never", 0..4).await.is_none());

    bucket.storage.delete(&name("r/small")).await.unwrap();
    bucket.storage.delete(&name("r/small")).await.unwrap();
    assert_eq!(bucket.bytes("r/small").await, None);
}

#[tokio::test]
async fn a_name_that_is_taken_keeps_what_it_names() {
    let bucket = TestBucket::started();
    assert_eq!(bucket.put("c/small", b"first").await.unwrap(), PutOutcome::Stored);
    assert_eq!(bucket.put("c/small", b"second").await.unwrap(), PutOutcome::Exists);
    assert_eq!(bucket.range("c/small", 0..5).await.unwrap(), b"first");

    let large = content(9 * MEBIBYTE);
    assert_eq!(bucket.put("c/large", &large).await.unwrap(), PutOutcome::Stored);
    assert_eq!(bucket.put("c/large", &content(10 * MEBIBYTE)).await.unwrap(), PutOutcome::Exists);
    assert_eq!(bucket.bytes("c/large").await, Some(large.len() as u64));
}

#[tokio::test]
async fn anybody_downloads_by_a_signed_address() {
    let bucket = TestBucket::started();
    bucket.put("s/1/data.csv", b"a,b\r\n").await.unwrap();

    let (status, _, body) = get(&bucket.signed("s/1/data.csv", Duration::from_mins(5)).await);

    assert_eq!((status, body.as_slice()), (200, b"a,b\r\n".as_slice()));
}

#[tokio::test]
async fn a_signed_address_names_the_file_that_is_saved() {
    let bucket = TestBucket::started();
    bucket.put("s/2/data.csv", b"a,b\r\n").await.unwrap();

    let (_, headers, _) = get(&bucket.signed("s/2/data.csv", Duration::from_mins(5)).await);

    assert_eq!(headers["content-disposition"], "attachment; filename=\"export-1.csv\"");
    assert_eq!(headers["content-type"], "text/csv");
}

#[tokio::test]
async fn a_signed_address_expires_and_serves_for_nothing_else() {
    let bucket = TestBucket::started();
    bucket.put("s/3/data.csv", b"a,b\r\n").await.unwrap();
    bucket.put("s/3/other.csv", b"secret").await.unwrap();
    let url = bucket.signed("s/3/data.csv", Duration::from_mins(5)).await;
    assert_eq!(get(&url).0, 200);

    let expired = bucket.signed("s/3/data.csv", Duration::from_secs(1)).await;
    // The store's clock is not ours to move.
    tokio::time::sleep(Duration::from_millis(2_500)).await;

    for (what, changed) in [
        ("expired", expired),
        ("another object", url.replace("data.csv", "other.csv")),
        ("a longer life", url.replace("X-Amz-Expires=300", "X-Amz-Expires=30000")),
        ("another name", url.replace("export-1", "export-2")),
        ("no signature", url.split("&X-Amz-Signature").next().unwrap().to_owned()),
    ] {
        let (refused, _, content) = get(&changed);
        assert!((400..404).contains(&refused), "{what}: {refused}");
        assert!(!content.starts_with(b"a,b") && content != b"secret", "{what}");
    }
}

#[tokio::test]
async fn a_list_goes_on_where_it_ended_and_all_of_it_can_be_removed() {
    let bucket = TestBucket::started();
    let names: Vec<String> = (0..12).map(|number| format!("l/{number:02}/data")).collect();
    for at in &names {
        bucket.put(at, b"x").await.unwrap();
    }
    bucket.put("l2/data", b"x").await.unwrap();

    let listed = async |after: &str| {
        let found = bucket.storage.list(&name("l"), after).await.unwrap();
        found.into_iter().map(|stored| stored.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed("").await, names);
    assert_eq!(listed(&names[7]).await, names[8..]);

    bucket.storage.delete_all(&name("l")).await.unwrap();
    assert!(listed("").await.is_empty());
    assert_eq!(bucket.bytes("l2/data").await, Some(1));
}

#[tokio::test]
async fn a_segment_is_begun_once_and_read_on_another_machine() {
    let bucket = TestBucket::started();
    let other_machine = TestBucket::started();
    let at = name("e/1/2/spool");
    let segment = bucket.storage.begin_segment(&at).await.unwrap().unwrap();
    let frames: Vec<Vec<u8>> = (0..12).map(|page| content(1_000 + page)).collect();

    for (page, frame) in (0..).zip(&frames) {
        segment.append(page, frame).unwrap().unwrap().send().await.unwrap();
    }

    let taken = other_machine.storage.segment(&at).await.unwrap().unwrap();
    let mut read = Vec::new();
    taken.reader().unwrap().read_to_end(&mut read).unwrap();
    assert!(read == frames.concat());
    assert!(other_machine.storage.begin_segment(&at).await.unwrap().is_none());
    assert!(other_machine.storage.segment(&name("e/1/3/spool")).await.unwrap().is_none());

    bucket.storage.delete_segment(&at).await.unwrap();
    assert!(other_machine.storage.segment(&at).await.unwrap().is_none());
}

#[tokio::test]
async fn credentials_that_the_store_does_not_know_store_nothing() {
    let endpoint = std::env::var(ENDPOINT).unwrap();
    let stranger = bucket_at(&endpoint, "another secret", SECONDS);

    let failed = stranger.put("w/data", b"x").await.unwrap_err();

    assert!(!failed.retryable, "{failed:?}");
    assert_eq!(TestBucket::started().bytes("w/data").await, None);
}
