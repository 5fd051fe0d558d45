//! Storage in a bucket. What a store does wrong is played by a listener here; what stores do right is asked of those
//! that others made: `scripts/storage-test` starts them and runs the tests that are ignored otherwise.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use clients::storage::{
    BucketSettings, ObjectName, Place, Put, Storage, StorageError, StorageSettings,
};

const MEBIBYTE: usize = 1024 * 1024;
/// The store that the ignored tests speak to.
const ENDPOINT: &str = "CREATOR_GATEWAY_TEST_S3";
const BUCKET: &str = "exports";

struct Bucket {
    storage: Storage,
    /// Keeps the folder for work.
    _folder: tempfile::TempDir,
}

/// A storage in the bucket of a store at this address.
fn bucket_at(endpoint: &str, secret: &str, timeout: Duration) -> Bucket {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::Bucket(BucketSettings {
        bucket: BUCKET.to_owned(),
        endpoint: endpoint.to_owned(),
        region: "us-east-1".to_owned(),
        path_style: true,
        allow_http: false,
        credentials: Some(("test".to_owned(), secret.to_owned().into())),
        authorities: None,
        connect_timeout: Duration::from_secs(5),
        request_timeout: timeout,
    });
    let work_folder: PathBuf = folder.path().join("work");
    let storage = Storage::open(&StorageSettings { place, work_folder }).unwrap();
    Bucket { storage, _folder: folder }
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

impl Bucket {
    /// Of the store that a script has started.
    fn started() -> Self {
        // scripts/storage-test says where it is.
        let endpoint = std::env::var(ENDPOINT).unwrap();
        bucket_at(&endpoint, "test-secret", Duration::from_mins(1))
    }

    async fn put(&self, at: &str, content: &[u8]) -> Result<Put, StorageError> {
        let work = self.storage.work_file("work").unwrap();
        work.file().write_all(content).unwrap();
        self.storage.put_file(&name(at), work).await
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

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
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

/// What a played store was asked: method, path and query, and whether the name had to be free.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    line: String,
    must_be_free: bool,
}

/// What a played store does with a request: it answers with a status, headers and a body, or never.
type Plays = fn(number: usize, asked: &Asked) -> Option<(u16, &'static str, &'static str)>;

/// A store that plays what it is told to.
struct Store {
    endpoint: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Store {
    fn start(plays: Plays) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || while answer(&stream, &log, plays).is_some() {});
            }
        });
        Self { endpoint, asked }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// Answers one request on a connection; `None` ends it.
fn answer(stream: &TcpStream, log: &Mutex<Vec<Asked>>, plays: Plays) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut asked =
        Asked { line: line.trim_end_matches(" HTTP/1.1\r\n").to_owned(), must_be_free: false };
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "if-none-match" => asked.must_be_free = value == "*",
            _ => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let number = {
        let mut log = log.lock().unwrap();
        log.push(asked.clone());
        log.len()
    };
    let Some((status, headers, body)) = plays(number, &asked) else {
        // Silence, until the other side hangs up.
        drop(reader.read(&mut [0]));
        return None;
    };
    let mut out = stream;
    write!(out, "HTTP/1.1 {status} x\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).ok()
}

const SECONDS: Duration = Duration::from_secs(30);
const BEGUN: &str = "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
const MADE: &str =
    "<CompleteMultipartUploadResult><ETag>\"x\"</ETag></CompleteMultipartUploadResult>";

/// What a store does up to the last request of an upload in parts.
fn up_to_the_last(asked: &Asked) -> Option<(u16, &'static str, &'static str)> {
    match asked.line.split(' ').next().unwrap() {
        "POST" if asked.line.contains("uploads") => Some((200, "", BEGUN)),
        "PUT" => Some((200, "ETag: \"part\"\r\n", "")),
        "DELETE" => Some((204, "", "")),
        _ => None,
    }
}

#[tokio::test]
async fn trouble_of_the_store_is_waited_out_and_nothing_is_written_over() {
    let store = Store::start(|number, _| {
        Some(if number < 3 { (503, "", "") } else { (200, "ETag: \"x\"\r\n", "") })
    });
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    assert_eq!(bucket.put("a/data", b"x").await.unwrap(), Put::Stored);

    let free = Asked { line: "PUT /exports/a/data".to_owned(), must_be_free: true };
    assert_eq!(store.asked(), [free.clone(), free.clone(), free]);
}

#[tokio::test]
async fn a_store_that_says_nothing_is_given_up_in_time() {
    let store = Store::start(|_, _| None);
    let bucket = bucket_at(&store.endpoint, "s", Duration::from_millis(300));

    let failed = bucket.put("a/data", b"x").await.unwrap_err();

    assert!(failed.retryable, "{failed:?}");
}

#[tokio::test]
async fn credentials_that_are_refused_are_not_tried_again() {
    let store = Store::start(|_, _| Some((403, "", "<Error><Code>AccessDenied</Code></Error>")));
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    let failed = bucket.put("a/data", b"x").await.unwrap_err();

    assert!(!failed.retryable);
    assert_eq!(failed.to_string(), "the storage refuses these credentials");
    assert_eq!(store.asked().len(), 1);
}

#[tokio::test]
async fn an_upload_in_parts_becomes_an_object_only_if_its_name_is_free() {
    let store = Store::start(|_, asked| up_to_the_last(asked).or(Some((412, "", ""))));
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    assert_eq!(bucket.put("a/data", &content(17 * MEBIBYTE)).await.unwrap(), Put::Exists);

    let asked = store.asked();
    assert_eq!(asked.iter().filter(|asked| asked.line.starts_with("PUT")).count(), 3);
    let last = asked
        .iter()
        .find(|asked| asked.line.starts_with("POST") && asked.line.contains("uploadId=u1"))
        .unwrap();
    assert!(last.must_be_free);
    assert!(asked.last().unwrap().line.starts_with("DELETE"), "the parts were not given up");
}

#[tokio::test]
async fn a_good_answer_that_ends_as_an_error_makes_no_object() {
    let store = Store::start(|number, asked| {
        up_to_the_last(asked).or(Some((
            200,
            "",
            if number < 6 { "<Error><Code>InternalError</Code></Error>" } else { MADE },
        )))
    });
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    assert_eq!(bucket.put("a/data", &content(9 * MEBIBYTE)).await.unwrap(), Put::Stored);

    let last = store
        .asked()
        .into_iter()
        .filter(|asked| asked.line.contains("POST") && asked.line.contains("uploadId"))
        .count();
    assert_eq!(last, 3);
}

#[tokio::test]
async fn an_object_of_another_length_is_not_taken_for_ones_own() {
    let store = Store::start(|number, asked| {
        if asked.line.starts_with("HEAD") {
            // Of somebody else, for it is empty.
            return Some((
                200,
                "Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\nETag: \"x\"\r\n",
                "",
            ));
        }
        up_to_the_last(asked).or(Some(if number == 4 { (500, "", "") } else { (404, "", "") }))
    });
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    let put = bucket.put("a/data", &content(9 * MEBIBYTE)).await;

    assert!(put.unwrap_err().retryable);
    assert_eq!(store.asked().iter().filter(|asked| asked.line.starts_with("HEAD")).count(), 1);
}

#[tokio::test]
async fn a_download_that_ends_early_is_an_error_and_never_short() {
    let store = Store::start(|_, _| {
        Some((
            206,
            "Content-Range: bytes 0-3/10\r\nLast-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\nETag: \"x\"\r\n",
            "abcd",
        ))
    });
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    let read = bucket.storage.read(&name("a/data"), 0..10).await;

    let failed = match read {
        Err(error) => error,
        Ok(download) => {
            let mut download = download.unwrap();
            loop {
                match download.next().await {
                    Err(error) => break error,
                    Ok(part) => assert!(part.is_some(), "the download is short"),
                }
            }
        }
    };
    assert!(failed.retryable, "{failed:?}");
}

#[tokio::test]
#[ignore = "needs a store: scripts/storage-test"]
async fn what_is_stored_is_given_back_whole_and_in_ranges() {
    let bucket = Bucket::started();
    for (at, length) in [("r/empty", 0), ("r/small", 1_000), ("r/large", 20 * MEBIBYTE + 17)] {
        let data = content(length);
        let end = length as u64;

        assert_eq!(bucket.put(at, &data).await.unwrap(), Put::Stored, "{at}");

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
#[ignore = "needs a store: scripts/storage-test"]
async fn a_name_that_is_taken_keeps_what_it_names() {
    let bucket = Bucket::started();
    assert_eq!(bucket.put("c/small", b"first").await.unwrap(), Put::Stored);
    assert_eq!(bucket.put("c/small", b"second").await.unwrap(), Put::Exists);
    assert_eq!(bucket.range("c/small", 0..5).await.unwrap(), b"first");

    let large = content(9 * MEBIBYTE);
    assert_eq!(bucket.put("c/large", &large).await.unwrap(), Put::Stored);
    assert_eq!(bucket.put("c/large", &content(10 * MEBIBYTE)).await.unwrap(), Put::Exists);
    assert_eq!(bucket.bytes("c/large").await, Some(large.len() as u64));
}

#[tokio::test]
#[ignore = "needs a store: scripts/storage-test"]
async fn anybody_downloads_by_a_signed_address() {
    let bucket = Bucket::started();
    bucket.put("s/1/data.csv", b"a,b\r\n").await.unwrap();

    let (status, _, body) = get(&bucket.signed("s/1/data.csv", Duration::from_mins(5)).await);

    assert_eq!((status, body.as_slice()), (200, b"a,b\r\n".as_slice()));
}

#[tokio::test]
#[ignore = "needs a store: scripts/storage-test"]
async fn a_signed_address_names_the_file_that_is_saved() {
    let bucket = Bucket::started();
    bucket.put("s/2/data.csv", b"a,b\r\n").await.unwrap();

    let (_, headers, _) = get(&bucket.signed("s/2/data.csv", Duration::from_mins(5)).await);

    assert_eq!(headers["content-disposition"], "attachment; filename=\"export-1.csv\"");
    assert_eq!(headers["content-type"], "text/csv");
}

#[tokio::test]
#[ignore = "needs a store: scripts/storage-test"]
async fn a_signed_address_expires_and_serves_for_nothing_else() {
    let bucket = Bucket::started();
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
#[ignore = "needs a store: scripts/storage-test"]
async fn a_list_goes_on_where_it_ended_and_all_of_it_can_be_removed() {
    let bucket = Bucket::started();
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
#[ignore = "needs a store: scripts/storage-test"]
async fn a_segment_is_begun_once_and_read_on_another_machine() {
    let bucket = Bucket::started();
    let other_machine = Bucket::started();
    let at = name("e/1/2/spool");
    let segment = bucket.storage.begin_segment(&at).await.unwrap().unwrap();
    let frames: Vec<Bytes> = (0..12).map(|page| content(1_000 + page).into()).collect();

    for (page, frame) in (0..).zip(&frames) {
        segment.append(page, frame.clone()).await.unwrap();
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
#[ignore = "needs a store: scripts/storage-test"]
async fn credentials_that_the_store_does_not_know_store_nothing() {
    let endpoint = std::env::var(ENDPOINT).unwrap();
    let stranger = bucket_at(&endpoint, "another secret", SECONDS);

    let failed = stranger.put("w/data", b"x").await.unwrap_err();

    assert!(!failed.retryable, "{failed:?}");
    assert_eq!(Bucket::started().bytes("w/data").await, None);
}
