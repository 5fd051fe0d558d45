//! Uploads: allowed forms, what the platform receives, the cost, and that nothing is left on disk.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use test_service::client::{Client, Reply};
use test_service::form::{self, Form};
use test_service::platform::{Script, json_answer};
use test_service::raw::RawConnection;
use test_service::stage::{CREDITS, Stage, on_stage};
use test_service::{TestApp, memory_peak_kib, with_app};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const GAMMA: &str = "platform_gamma";

/// A platform that accepts every upload.
fn created(_: &test_service::platform::Seen, number: usize) -> Script {
    Script::json(201, format!(r#"{{"_id":"{number}"}}"#))
}

/// Uploads to the account of the stage.
async fn upload(stage: &Stage, form: &Form) -> Reply {
    form.upload(&stage.client, &stage.account).await
}

/// Asserts that nothing was sent, nothing charged, and nothing is left on disk.
async fn is_untouched(stage: &Stage) {
    stage.is_unspent().await;
    until_empty(&stage.app).await;
}

/// Waits until no upload's file is on disk.
async fn until_empty(app: &TestApp) {
    while !app.spooled().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Waits until an upload's file is on disk, and returns its mode.
async fn until_spooling(app: &TestApp) -> u32 {
    loop {
        if let Some((mode, _)) = app.spooled().first() {
            return *mode;
        }
        tokio::task::yield_now().await;
    }
}

/// The head of an upload, with a body of `length` bytes, or chunked.
fn head(stage: &Stage, form: &Form, length: Option<usize>) -> String {
    let framing = length.map_or_else(
        || "Transfer-Encoding: chunked".to_owned(),
        |length| format!("Content-Length: {length}"),
    );
    format!(
        "POST /v1/{}/media/upload HTTP/1.1\r\n{}Content-Type: {}\r\n{framing}\r\n\r\n",
        stage.account,
        stage.host_and_key(),
        form.content_type()
    )
}

/// Bytes that include boundaries, line ends and all other bytes.
fn wild(length: usize) -> Vec<u8> {
    let wild = b"\r\n--\r\n------a-boundar\r\n--\0\xff\xfe--".iter().copied();
    wild.chain(0..=255).cycle().take(length).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_creates_a_post_that_reads_show() {
    with_app(async |app| {
        let (_, client, account) = app.ready(GAMMA, 100).await;
        let file = wild(300_000);
        let form = Form::new()
            .text("description", "The sea,\r\nin \u{e4}nderung")
            .text("price", "900")
            .file("C:\\pictures\\the \u{e9}t\u{e9}.jpg", "image/jpeg", &file)
            .text("tag", "sea, blue");

        let made = form.upload(&client, &account).await;

        assert_eq!((made.status, made.receipt()), (201, (2, 98)), "{}", made.text());
        assert_eq!(made.header("x-route"), "POST media/upload");
        let post = made.json();
        assert_eq!(post["description"], "The sea,\r\nin \u{e4}nderung");
        assert_eq!((&post["price"], &post["status"]), (&json!(900), &json!("published")));
        assert_eq!(post["categories"], json!(["media", "image"]));
        assert_eq!(post["tag"], json!(["sea", "blue"]));
        let medium = &post["files"][0];
        assert_eq!(
            (&medium["filename"], &medium["size"]),
            (&json!("the \u{e9}t\u{e9}.jpg"), &json!(300_000))
        );
        let sha256 = hex::encode(Sha256::digest(&file));
        assert_eq!(medium["sha256"], sha256.as_str());
        let kept = Client::new(app.world.address()).get(&format!("/control/files/{sha256}")).await;
        assert!(kept.status == 200 && kept.body == file, "the file must arrive unchanged");

        let native = |path: &str| format!("/v1/{account}/native/{path}");
        let posts = client.get(&native("posts?limit=1")).await.json();
        let id = post["_id"].as_str().unwrap();
        let one = client.get(&native(&format!("file-stack/{id}"))).await.json();
        assert_eq!((&posts[0], &one), (&post, &post));
        app.settled(&client).await;
        let log = client.get("/v1/billing/usage/recent").await.json();
        let mut calls = log["calls"].as_array().unwrap().iter();
        let call = calls.find(|call| call["method"] == "POST").unwrap();
        let logged = ["method", "path", "route", "outcome"].map(|field| call[field].clone());
        assert_eq!(logged, ["POST", "media/upload", "POST media/upload", "answered"]);
        assert_eq!(call["credits"], 2);
        until_empty(&app).await;
        app
    })
    .await;
}

/// The price rules and the defaults of specification 4.3, as the platform sees them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_is_sent_as_specified() {
    on_stage(GAMMA, "", created, async |stage| {
        let picture = || Form::new().with_picture();
        let named = |name: &str, kind: &str| Form::new().file(name, kind, b"x");
        let image = ("categories", "media,image");
        let video = ("categories", "media,video");
        let cases: Vec<(Form, Vec<(&str, &str)>)> = vec![
            (picture(), vec![image]),
            (named("a.bin", "video/mp4"), vec![video]),
            (named("a.MOV", "application/octet-stream"), vec![video]),
            (
                Form::new().part("Content-Disposition: form-data; name=file; filename=a.png", b"x"),
                vec![image],
            ),
            (
                named("a.pdf", "application/pdf").text("categories", "a , b"),
                vec![("categories", "a,b")],
            ),
            (picture().text("price", "0"), vec![image, ("price", "0")]),
            (picture().text("price", " 300 "), vec![image, ("price", "300")]),
            (picture().text("price", "+0900"), vec![image, ("price", "900")]),
            (
                picture().text("is_subscription_item", "true"),
                vec![image, ("price", "0"), ("is_subscription_item", "true")],
            ),
            (
                picture().texts(&[("price", "900"), ("is_subscription_item", "true")]),
                vec![image, ("price", "0"), ("is_subscription_item", "true")],
            ),
            (
                picture().texts(&[("is_subscription_item", "true"), ("price", "100")]),
                vec![image, ("price", "0"), ("is_subscription_item", "true")],
            ),
            (
                picture().texts(&[("is_subscription_item", "false"), ("price", "900")]),
                vec![image, ("price", "900"), ("is_subscription_item", "false")],
            ),
            (picture().text("private", "true"), vec![image, ("private", "true")]),
            (
                picture().text("to_be_posted_at", "2027-01-02T05:00:00+02:00"),
                vec![image, ("to_be_posted_at", "2027-01-02T03:00:00.000000Z")],
            ),
            (
                picture().texts(&[
                    ("price", ""),
                    ("private", " "),
                    ("tag", ""),
                    ("to_be_posted_at", ""),
                ]),
                vec![image],
            ),
        ];
        let credits_before = stage.balance().await;
        for (form, expected) in &cases {
            let reply = upload(&stage, form).await;

            assert_eq!(reply.status, 201, "{}", reply.text());
            let seen = stage.platform.last_call();
            assert_eq!((seen.method(), seen.target()), ("POST", "/media/upload"));
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let expected: Vec<_> = expected.iter().map(own).collect();
            assert_eq!(form::fields(&seen), expected);
        }
        let spent = 2 * i64::try_from(cases.len()).unwrap();
        assert_eq!(stage.balance().await, credits_before - spent);
        stage
    })
    .await;
}

/// The same write by its native path, which must not bypass the checks of uploads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_by_its_native_path_is_checked_like_an_upload() {
    on_stage(GAMMA, "", created, async |stage| {
        let send = async |native: &str, form: &Form| {
            let client = stage.client.with("content-type", &form.content_type());
            client.send("POST", &stage.path(native), Some(form.body())).await
        };
        for native in ["media/upload", "media/upload/", "media/uplo%61d", "Media/upload"] {
            let cheap = send(native, &Form::new().with_picture().text("price", "299")).await;
            assert_eq!(
                cheap.wrong_fields(),
                [("body.price".to_owned(), "out_of_range".to_owned())],
                "{native}"
            );
        }
        let json = stage.post("media/upload", &json!({"price": 299})).await;
        assert_eq!(json.status, 415, "{}", json.text());
        let query = send("media/upload?price=299", &Form::new().with_picture()).await;
        assert_eq!(query.wrong_fields()[0].0, "query.price");
        is_untouched(&stage).await;

        let made = send("media/upload", &Form::new().with_picture().text("price", "300")).await;

        assert_eq!((made.status, made.receipt()), (201, (2, CREDITS - 2)), "{}", made.text());
        assert_eq!(made.header("x-route"), "POST media/upload");
        let expected = [("categories", "media,image"), ("price", "300")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(form::fields(&stage.platform.last_call()), expected);
        stage
    })
    .await;
}

/// The platform gets our own form: credentials, one content type, a length, and the file unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_platform_gets_a_newly_framed_form() {
    on_stage(GAMMA, "", created, async |stage| {
        let file = wild(200_001);
        let form = Form::new().file("a\"; name=\"evil.jpg", "image/jpeg; x=y", &file);
        let client = stage.client.with("connection", "content-type").with("cookie", "a=b");

        let reply = form.upload(&client, &stage.account).await;

        assert_eq!(reply.status, 201, "{}", reply.text());
        let seen = stage.platform.last_call();
        assert!(!seen.head.contains("a-boundary"), "{}", seen.head);
        assert_eq!(seen.header("x-resource"), Some("res-1"));
        assert_eq!(seen.header("transfer-encoding"), None);
        assert_eq!(seen.header("cookie"), None);
        let parts = form::parts(&seen);
        let sent = parts.last().unwrap();
        assert!(sent.headers.ends_with("\r\nContent-Type: image/jpeg"), "{}", sent.headers);
        assert_eq!(sent.headers.matches("name=\"").count(), 2, "{}", sent.headers);
        assert!(sent.content == file, "the file must arrive unchanged");
        stage
    })
    .await;
}

/// Invalid forms, and the expected field errors: location and kind.
fn wrong_forms() -> Vec<(Form, &'static [(&'static str, &'static str)])> {
    let picture = || Form::new().with_picture();
    let disposition = |rest: &str| format!("Content-Disposition: form-data{rest}");
    vec![
        (Form::new().text("price", "0"), &[("body.file", "missing")]),
        (Form::new(), &[("body.file", "missing")]),
        (Form::new().file("a.jpg", "image/jpeg", b""), &[("body.file", "too_short")]),
        (Form::new().text("file", "not a file"), &[("body.file", "bad_format")]),
        (picture().with_picture(), &[("body.file", "duplicate")]),
        (picture().text("price", "1"), &[("body.price", "out_of_range")]),
        (picture().text("price", "299"), &[("body.price", "out_of_range")]),
        (picture().text("price", "-300"), &[("body.price", "out_of_range")]),
        (picture().text("price", "3.5e2"), &[("body.price", "out_of_range")]),
        (
            picture().texts(&[("is_subscription_item", "false"), ("price", "299")]),
            &[("body.price", "out_of_range")],
        ),
        (picture().texts(&[("price", "300"), ("price", "0")]), &[("body.price", "duplicate")]),
        (
            picture().text("is_subscription_item", "1"),
            &[("body.is_subscription_item", "wrong_type")],
        ),
        (picture().text("private", "TRUE"), &[("body.private", "wrong_type")]),
        (
            picture().text("to_be_posted_at", "2027-01-02T03:04:05"),
            &[("body.to_be_posted_at", "bad_format")],
        ),
        (picture().text("to_be_posted_at", "tomorrow"), &[("body.to_be_posted_at", "bad_format")]),
        (picture().text("categories", "media,,image"), &[("body.categories", "bad_format")]),
        (picture().text("tag", ","), &[("body.tag", "bad_format")]),
        (picture().text("tag", "a\u{7}"), &[("body.tag", "bad_format")]),
        (picture().text("description", "a\0b"), &[("body.description", "bad_format")]),
        (
            picture().part(&disposition("; name=\"description\""), b"\xff\xfe"),
            &[("body.description", "bad_format")],
        ),
        (Form::new().file("a.pdf", "application/pdf", b"x"), &[("body.categories", "missing")]),
        (
            Form::new().file("a", "application/octet-stream", b"x"),
            &[("body.categories", "missing")],
        ),
        (picture().text("Price", "0"), &[("body.Price", "unknown_field")]),
        (picture().text("_charset_", "utf-7"), &[("body._charset_", "unknown_field")]),
        (picture().part(&disposition(""), b"x"), &[("body.", "unknown_field")]),
        (Form::new().file(&"n".repeat(256), "image/jpeg", b"x"), &[("body.file", "bad_format")]),
        (Form::new().file("folder/", "image/jpeg", b"x"), &[("body.file", "bad_format")]),
    ]
}

/// Forms with several errors, which are all reported together.
fn forms_with_much_wrong() -> Vec<(Form, &'static [(&'static str, &'static str)])> {
    vec![
        (
            Form::new().with_picture().texts(&[("private", "x"), ("price", "x"), ("tag", ",")]),
            &[
                ("body.price", "out_of_range"),
                ("body.tag", "bad_format"),
                ("body.private", "wrong_type"),
            ],
        ),
        (
            Form::new().texts(&[
                ("price", "12"),
                ("is_subscription_item", "maybe"),
                ("private", "x"),
                ("to_be_posted_at", "tomorrow"),
            ]),
            &[
                ("body.file", "missing"),
                ("body.is_subscription_item", "wrong_type"),
                ("body.price", "out_of_range"),
                ("body.private", "wrong_type"),
                ("body.to_be_posted_at", "bad_format"),
            ],
        ),
        (
            Form::new()
                .texts(&[("nosuch", "1"), ("nosuch", "2"), ("tag", "a"), ("tag", "b")])
                .with_picture()
                .with_picture()
                .text("private", "x"),
            &[
                ("body.nosuch", "unknown_field"),
                ("body.tag", "duplicate"),
                ("body.file", "duplicate"),
                ("body.private", "wrong_type"),
            ],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_field_is_reported_and_costs_nothing() {
    on_stage(GAMMA, "", created, async |stage| {
        for (form, expected) in wrong_forms().into_iter().chain(forms_with_much_wrong()) {
            let reply = upload(&stage, &form).await;

            let body = String::from_utf8_lossy(&form.body()).into_owned();
            let found = reply.wrong_fields();
            let found: Vec<_> =
                found.iter().map(|(place, kind)| (place.as_str(), kind.as_str())).collect();
            assert_eq!(found, expected, "{body}");
        }
        is_untouched(&stage).await;
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_form_is_refused() {
    on_stage(GAMMA, "", created, async |stage| {
        let path = format!("/v1/{}/media/upload", stage.account);
        let whole = Form::new().with_picture();
        let as_type = async |kind: &str| {
            let client = stage.client.with("content-type", kind);
            client.send("POST", &path, Some(whole.body())).await
        };
        for kind in [
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/mixed; boundary=a",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            &format!("multipart/form-data; boundary={}", "b".repeat(71)),
        ] {
            let reply = as_type(kind).await;
            assert_eq!(reply.failure(), (415, "unsupported_media_type".to_owned()), "{kind}");
        }
        let none = stage.client.send("POST", &path, Some(whole.body())).await;
        assert_eq!(none.failure(), (415, "unsupported_media_type".to_owned()));
        let encoded = stage.client.with("content-encoding", "gzip");
        assert_eq!(whole.upload(&encoded, &stage.account).await.status, 415);

        let other = as_type("multipart/form-data; boundary=another").await;
        assert_eq!(other.wrong_fields(), [("body".to_owned(), "malformed".to_owned())]);
        let client = stage.client.with("content-type", &whole.content_type());
        let body = whole.body();
        for end in [0, 1, 20, body.len() / 2, body.len() - 20, body.len() - 4] {
            let reply = client.send("POST", &path, Some(body[..end].to_vec())).await;
            assert_eq!(
                reply.wrong_fields(),
                [("body".to_owned(), "malformed".to_owned())],
                "cut at {end}"
            );
        }
        let query = client.send("POST", &format!("{path}?price=500"), Some(body)).await;
        assert_eq!(query.wrong_fields(), [("query.price".to_owned(), "unknown_field".to_owned())]);
        for method in ["GET", "PUT", "DELETE"] {
            let reply = stage.client.send(method, &path, None).await;
            assert_eq!(reply.failure(), (405, "method_not_allowed".to_owned()), "{method}");
        }
        is_untouched(&stage).await;
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_platforms_accept_no_upload() {
    with_app(async |app| {
        for platform in ["platform_alpha", "platform_beta", "platform_delta"] {
            let (_, client, account) = app.ready(platform, 10).await;
            let before = app.seen(platform).await.len();

            let reply = Form::new().with_picture().upload(&client, &account).await;

            assert_eq!(reply.failure(), (400, "unsupported_platform".to_owned()), "{platform}");
            assert_eq!(app.seen(platform).await.len(), before);
            assert_eq!(client.get("/v1/billing").await.json()["balance"], 10);
        }
        app
    })
    .await;
}

/// A caller need not send a large file to find out that it cannot pay for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_beyond_the_balance_is_refused_before_its_file_is_read() {
    with_app(async |app| {
        let (customer, client, account) = app.ready(GAMMA, 1).await;
        let before = app.seen(GAMMA).await.len();
        let form = Form::new().with_picture();
        let mut caller = RawConnection::open(app.running().address()).await;
        caller
            .send(format!(
                "POST /v1/{account}/media/upload HTTP/1.1\r\nHost: a\r\nX-API-Key: {}\r\n\
                 Content-Type: {}\r\nContent-Length: 400000000\r\n\r\n",
                customer.key,
                form.content_type()
            ))
            .await;

        let answer = caller.answer().await.unwrap();

        assert_eq!((answer.status, answer.code().as_str()), (402, "insufficient_credits"));
        let reply = form.upload(&client, &account).await;
        assert_eq!(reply.failure(), (402, "insufficient_credits".to_owned()));
        assert_eq!(
            (reply.json()["balance"].clone(), reply.json()["cost"].clone()),
            (json!(1), json!(2))
        );
        assert_eq!(app.seen(GAMMA).await.len(), before);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_above_the_limit_is_413_and_leaves_nothing() {
    let overrides = "[http.limits]\nupload_bytes_max = 1000000";
    on_stage(GAMMA, overrides, created, async |stage| {
        let of = |bytes: usize| Form::new().file("a.jpg", "image/jpeg", &wild(bytes));
        assert_eq!(upload(&stage, &of(1_000_000)).await.status, 201);
        let arrived = form::parts(&stage.platform.last_call()).pop().unwrap().content;
        assert_eq!(arrived.len(), 1_000_000);

        let over = upload(&stage, &of(1_000_001)).await;
        let mut caller = stage.raw().await;
        caller.send(head(&stage, &Form::new(), Some(4_294_967_296))).await;
        let announced = caller.answer().await.unwrap();

        assert_eq!(over.failure(), (413, "body_too_large".to_owned()));
        assert_eq!((announced.status, announced.code().as_str()), (413, "body_too_large"));
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - 2));
        until_empty(&stage.app).await;
        stage
    })
    .await;
}

/// D9: an endless file without an announced length is stopped at the limit, on disk too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_file_is_413_and_never_exceeds_the_limit_on_disk() {
    let overrides = "[http.limits]\nupload_bytes_max = 1000000";
    on_stage(GAMMA, overrides, created, async |stage| {
        let endless = Form::new().file("a.jpg", "image/jpeg", b"");
        let begun = endless.body();
        let begun = &begun[..begun.len() - "\r\n------a-boundary--\r\n".len()];
        let chunk = [format!("\r\n{:x}\r\n", 50_000).into_bytes(), wild(50_000)].concat();
        let mut caller = stage.raw().await;
        caller.send(head(&stage, &endless, None)).await;
        caller.send(format!("{:x}\r\n", begun.len())).await;
        caller.send(begun).await;

        for _ in 0..40 {
            caller.send(&chunk).await;
            let most = stage.app.spooled().into_iter().map(|(_, bytes)| bytes).max();
            assert!(most.unwrap_or(0) <= 1_000_000, "{most:?}");
        }
        let answer = caller.answer().await.unwrap();

        assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
        is_untouched(&stage).await;
        stage
    })
    .await;
}

/// The other parts of a form have a common limit, so that no form fills the memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_parts_of_a_form_are_limited() {
    on_stage(GAMMA, "", created, async |stage| {
        let picture = || Form::new().with_picture();
        let fits = picture().text("description", &"d".repeat(60_000));
        assert_eq!(upload(&stage, &fits).await.status, 201);

        let endless_name =
            format!("Content-Disposition: form-data; name=\"{}\"", "n".repeat(300_000));
        let endless_header = format!("X: {}", "n".repeat(300_000));
        let many = (0..20_000).fold(picture(), |form, _| form.part("X: y", b""));
        let preamble = Form::with_boundary("b").part("X: y", b"");
        let (mut before, mut after) = (vec![b'p'; 300_000], picture().body());
        before.extend(Form::new().body());
        after.extend(vec![b'e'; 300_000]);
        let forms = [
            picture().text("description", &"d".repeat(300_000)).body(),
            picture().part(&endless_name, b"x").body(),
            picture().part(&endless_header, b"x").body(),
            before,
            after,
        ];
        // The response may come before the form's end, so read while sending.
        let answered = async |form: &Form, body: Vec<u8>| {
            let mut caller = stage.raw().await;
            caller.send(head(&stage, form, Some(body.len()))).await;
            caller.send(body).await;
            caller.answer().await.unwrap().status
        };
        for (index, body) in forms.into_iter().enumerate() {
            assert_eq!(answered(&picture(), body).await, 413, "form {index}");
        }
        // Field errors are more specific than a form that is too large.
        for form in [many, preamble] {
            assert_eq!(answered(&form, form.body()).await, 422, "{}", form.body().len());
        }
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - 2));
        until_empty(&stage.app).await;
        stage
    })
    .await;
}

/// Accepts one request, discards and counts its body, responds, and returns the length of the body.
async fn drain(listener: TcpListener) -> usize {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let length: usize = length.parse().unwrap();
    let mut space = vec![0; 65_536];
    let mut left = length;
    while left > 0 {
        let most = left.min(space.len());
        left -= stream.read(&mut space[..most]).await.unwrap();
    }
    stream.write_all(&json_answer(201, "{}")).await.unwrap();
    length
}

/// 64 MiB pass through a few hundred KiB of memory: the file is on disk, and is copied in pieces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_does_not_grow_with_the_file() {
    on_stage(GAMMA, "", created, async |mut stage| {
        const PIECES: usize = 1_024;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        stage
            .restart_with(|config| {
                config.platforms.get_mut(domain::platform::Platform::GAMMA).unwrap().base_url =
                    base_url;
            })
            .await;
        let form = Form::new().file("a.mp4", "video/mp4", b"");
        let (piece, whole) = (wild(65_536), form.body());
        let (begin, end) = whole.split_at(whole.len() - "\r\n------a-boundary--\r\n".len());
        let length = whole.len() + PIECES * piece.len();
        let peak_before = memory_peak_kib();

        let mut caller = stage.raw().await;
        let sending = async {
            caller.send(head(&stage, &form, Some(length))).await;
            caller.send(begin).await;
            for _ in 0..PIECES {
                caller.send(&piece).await;
            }
            caller.send(end).await;
            caller.answer().await.unwrap().status
        };
        let (status, drained) = tokio::join!(sending, drain(listener));

        let grown = memory_peak_kib() - peak_before;
        assert_eq!(status, 201);
        assert!(drained > PIECES * piece.len(), "{drained}");
        assert!(grown < 24 * 1_024, "the memory grew by {grown} KiB");
        assert_eq!(stage.balance().await, CREDITS - 2);
        until_empty(&stage.app).await;
        stage
    })
    .await;
}

/// The file is readable only by its owner, has no name, and is gone when the caller disconnects; no
/// credits are held meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_disconnects_within_the_file_leaves_nothing() {
    on_stage(GAMMA, "", created, async |stage| {
        let form = Form::new().file("a.jpg", "image/jpeg", &wild(900_000));
        let body = form.body();
        for length in [Some(body.len()), None] {
            let mut caller = stage.raw().await;
            caller.send(head(&stage, &form, length)).await;
            if length.is_none() {
                caller.send(format!("{:x}\r\n", body.len())).await;
            }
            caller.send(&body[..700_000]).await;
            assert_eq!(until_spooling(&stage.app).await, 0o600);
            let names = std::fs::read_dir(stage.app.spool_folder()).unwrap().count();
            assert_eq!(names, 0, "the file must not have a name");
            assert_eq!(stage.client.get("/v1/billing").await.json()["held"], 0);

            drop(caller);

            until_empty(&stage.app).await;
        }
        is_untouched(&stage).await;
        stage
    })
    .await;
}

/// If a caller disconnects after the upload was sent, it is charged like any write; the file is
/// deleted with the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_disconnects_after_the_upload_was_sent_is_charged() {
    let gate = Arc::new(Semaphore::new(0));
    let script = Script::Gated(Arc::clone(&gate), vec![json_answer(201, "{}")]);
    on_stage(
        GAMMA,
        "",
        move |_, _| script.clone(),
        async |stage| {
            let form = Form::new().file("a.jpg", "image/jpeg", &wild(900_000));
            let mut caller = stage.raw().await;
            caller.send(head(&stage, &form, Some(form.body().len()))).await;
            caller.send(form.body()).await;
            while stage.platform.calls().is_empty() {
                tokio::task::yield_now().await;
            }
            assert_eq!(stage.client.get("/v1/billing").await.json()["held"], 2);

            drop(caller);
            gate.add_permits(1);

            assert_eq!(stage.ending().await, ("answered".to_owned(), 2));
            assert_eq!(stage.balance().await, CREDITS - 2);
            until_empty(&stage.app).await;
            stage
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_response_to_an_upload_is_charged_like_that_to_any_write() {
    let answers = [(200, 2), (400, 2), (403, 2), (409, 2), (413, 2), (429, 0), (500, 0), (503, 0)];
    for (status, cost) in answers {
        let script = move |_: &_, _| Script::json(status, r#"{"error":"x"}"#);
        on_stage(GAMMA, "", script, async |stage| {
            let reply = upload(&stage, &Form::new().with_picture()).await;

            assert_eq!((reply.status, reply.receipt()), (status, (cost, CREDITS - cost)));
            assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - cost));
            until_empty(&stage.app).await;
            stage
        })
        .await;
    }
}

/// Without a response nothing is charged, and a write is never retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_without_a_response_is_free_and_not_sent_again() {
    let faults = [
        (Script::close(), 502, "outcome_unknown"),
        (
            Script::AnswerAndClose(b"HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\n{".to_vec()),
            502,
            "outcome_unknown",
        ),
        (Script::silence(), 504, "outcome_unknown"),
    ];
    for (script, status, code) in faults {
        let patience = "[platforms.platform_gamma.timeouts]\nfirst_byte_ms = 200";
        let overrides = if status == 504 { patience } else { "" };
        on_stage(
            GAMMA,
            overrides,
            move |_, _| script.clone(),
            async |stage| {
                let reply = upload(&stage, &Form::new().with_picture()).await;

                assert_eq!(reply.failure(), (status, code.to_owned()), "{}", reply.text());
                assert_eq!(reply.receipt(), (0, CREDITS));
                assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS));
                until_empty(&stage.app).await;
                stage
            },
        )
        .await;
    }
}

/// The same form counts as the same request however it is framed; another file or field does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_can_be_repeated_safely_with_an_idempotency_key() {
    on_stage(GAMMA, "", created, async |stage| {
        let client = stage.client.with("idempotency-key", "post-17");
        let of = |boundary: &str, file: &[u8], price: &str| {
            Form::with_boundary(boundary).text("price", price).file("a.jpg", "image/jpeg", file)
        };
        let send = async |form: Form| form.upload(&client, &stage.account).await;

        let first = send(of("one", b"bytes", "300")).await;
        let again = send(of("another", b"bytes", "300")).await;
        let other_file = send(of("one", b"Bytes", "300")).await;
        let other_price = send(of("one", b"bytes", "301")).await;

        assert_eq!((first.status, first.receipt()), (201, (2, CREDITS - 2)));
        assert_eq!((again.status, &again.body), (201, &first.body), "{}", again.text());
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!(again.header("x-credits-cost"), "0");
        for other in [other_file, other_price] {
            assert_eq!(other.failure(), (422, "idempotency_mismatch".to_owned()));
        }
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - 2));
        stage
    })
    .await;
}

/// A dripping form times out after the grace period, and any form after the total time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_that_arrives_too_slowly_is_408_and_leaves_nothing() {
    for overrides in ["body_grace_ms = 100", "upload_ms = 100"] {
        let overrides = format!("[http.timeouts]\n{overrides}");
        on_stage(GAMMA, &overrides, created, async |stage| {
            let form = Form::new().with_picture();
            let mut caller = stage.raw().await;
            caller.send(head(&stage, &form, Some(form.body().len()))).await;
            caller.send(&form.body()[..form.body().len() - 30]).await;

            let answer = caller.answer().await.unwrap();

            assert_eq!((answer.status, answer.code().as_str()), (408, "body_timeout"));
            assert!(caller.is_closed().await);
            is_untouched(&stage).await;
            stage
        })
        .await;
    }
}

/// All files together have a limit on disk; a finished upload makes room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_together_stay_within_their_disk_limit() {
    let overrides = "[http.limits]\nupload_bytes_max = 600000\nuploads_bytes_max = 1000000";
    on_stage(GAMMA, overrides, created, async |stage| {
        let form = Form::new().file("a.jpg", "image/jpeg", &wild(600_000));
        let mut waiting = stage.raw().await;
        waiting.send(head(&stage, &form, Some(form.body().len()))).await;
        waiting.send(&form.body()[..599_000]).await;
        while stage.app.spooled().iter().map(|(_, bytes)| bytes).sum::<u64>() < 500_000 {
            tokio::task::yield_now().await;
        }

        let second = upload(&stage, &form).await;
        assert_eq!(second.failure(), (503, "overloaded".to_owned()));
        waiting.send(&form.body()[599_000..]).await;
        assert_eq!(waiting.answer().await.unwrap().status, 201);

        assert_eq!(upload(&stage, &form).await.status, 201);
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (2, CREDITS - 4));
        stage
    })
    .await;
}

/// A process that dies before it has unlinked a file leaves it behind; the next start removes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_removes_files_left_in_the_folder_by_a_dead_process() {
    with_app(async |mut app| {
        let folder = app.spool_folder();
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o700);
        app.stop_service().await;
        std::fs::write(folder.join("upload-00112233445566778899aabbccddeeff"), b"left").unwrap();
        std::fs::write(folder.join("notes.txt"), b"somebody's").unwrap();

        app.start_service(|_| ()).await.unwrap();

        let left: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].file_name(), "notes.txt");
        std::fs::remove_file(folder.join("notes.txt")).unwrap();
        app.stop_service().await;
        let in_the_way = folder.join("a-file");
        std::fs::write(&in_the_way, b"").unwrap();
        let refused =
            app.start_service(|config| config.uploads.folder = in_the_way.join("x")).await;
        let refused = refused.unwrap_err();
        assert!(
            refused.contains("the folder of uploads") && refused.contains("a-file/x"),
            "{refused}"
        );
        std::fs::remove_file(&in_the_way).unwrap();
        app.start_service(|_| ()).await.unwrap();
        app
    })
    .await;
}
