//! Storage in a bucket, where a listener plays what a store does wrong. What stores do right is
//! asked of those that others made: `tests/stores.rs`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage::PutOutcome;

use crate::bucket_storage::{MEBIBYTE, SECONDS, bucket_at, content, name};

/// What a played store was asked: method, path and query, and whether the name had to be free.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoreRequest {
    line: String,
    must_be_free: bool,
}

/// What a played store does with a request: it answers with a status, headers and a body, or never.
type StoreScript =
    fn(number: usize, asked: &StoreRequest) -> Option<(u16, &'static str, &'static str)>;

/// A store that plays what it is told to.
struct ScriptedStore {
    endpoint: String,
    asked: Arc<Mutex<Vec<StoreRequest>>>,
}

impl ScriptedStore {
    fn start(plays: StoreScript) -> Self {
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

    fn asked(&self) -> Vec<StoreRequest> {
        self.asked.lock().unwrap().clone()
    }
}

/// Answers one request on a connection; `None` ends it.
fn answer(stream: &TcpStream, log: &Mutex<Vec<StoreRequest>>, plays: StoreScript) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut asked = StoreRequest {
        line: line.trim_end_matches(" HTTP/1.1\r\n").to_owned(),
        must_be_free: false,
    };
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

const BEGUN: &str = "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
const MADE: &str =
    "<CompleteMultipartUploadResult><ETag>\"x\"</ETag></CompleteMultipartUploadResult>";

/// What a store does up to the last request of an upload in parts.
fn up_to_the_last(asked: &StoreRequest) -> Option<(u16, &'static str, &'static str)> {
    match asked.line.split(' ').next().unwrap() {
        "POST" if asked.line.contains("uploads") => Some((200, "", BEGUN)),
        "PUT" => Some((200, "ETag: \"part\"\r\n", "")),
        "DELETE" => Some((204, "", "")),
        _ => None,
    }
}

#[tokio::test]
async fn trouble_of_the_store_is_waited_out_and_nothing_is_written_over() {
    let store = ScriptedStore::start(|number, _| {
        Some(if number < 3 { (503, "", "") } else { (200, "ETag: \"x\"\r\n", "") })
    });
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    assert_eq!(bucket.put("a/data", b"x").await.unwrap(), PutOutcome::Stored);

    let free = StoreRequest { line: "PUT /exports/a/data".to_owned(), must_be_free: true };
    assert_eq!(store.asked(), [free.clone(), free.clone(), free]);
}

#[tokio::test]
async fn a_store_that_says_nothing_is_given_up_in_time() {
    let store = ScriptedStore::start(|_, _| None);
    let bucket = bucket_at(&store.endpoint, "s", Duration::from_millis(300));

    let failed = bucket.put("a/data", b"x").await.unwrap_err();

    assert!(failed.retryable, "{failed:?}");
}

#[tokio::test]
async fn credentials_that_are_refused_are_not_tried_again() {
    let store =
        ScriptedStore::start(|_, _| Some((403, "", "<Error><Code>AccessDenied</Code></Error>")));
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    let failed = bucket.put("a/data", b"x").await.unwrap_err();

    assert!(!failed.retryable);
    assert_eq!(failed.to_string(), "the storage refuses these credentials");
    assert_eq!(store.asked().len(), 1);
}

#[tokio::test]
async fn an_upload_in_parts_becomes_an_object_only_if_its_name_is_free() {
    let store = ScriptedStore::start(|_, asked| up_to_the_last(asked).or(Some((412, "", ""))));
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    assert_eq!(bucket.put("a/data", &content(17 * MEBIBYTE)).await.unwrap(), PutOutcome::Exists);

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
    let store = ScriptedStore::start(|number, asked| {
        up_to_the_last(asked).or(Some((
            200,
            "",
            if number < 6 { "<Error><Code>InternalError</Code></Error>" } else { MADE },
        )))
    });
    let bucket = bucket_at(&store.endpoint, "s", SECONDS);

    assert_eq!(bucket.put("a/data", &content(9 * MEBIBYTE)).await.unwrap(), PutOutcome::Stored);

    let last = store
        .asked()
        .into_iter()
        .filter(|asked| asked.line.contains("POST") && asked.line.contains("uploadId"))
        .count();
    assert_eq!(last, 3);
}

#[tokio::test]
async fn an_object_of_another_length_is_not_taken_for_ones_own() {
    let store = ScriptedStore::start(|number, asked| {
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
    let store = ScriptedStore::start(|_, _| {
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
