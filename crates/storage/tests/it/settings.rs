//! Settings of a storage: what cannot be used is refused before anything is stored.

use std::path::PathBuf;
use std::time::Duration;

use storage::{BucketSettings, Storage, StorageLocation, StorageSettings};

fn bucket(endpoint: &str) -> BucketSettings {
    BucketSettings {
        bucket: "exports".to_owned(),
        endpoint: endpoint.to_owned(),
        region: "us-east-1".to_owned(),
        path_style: true,
        allow_http: false,
        credentials: Some(("an-id".to_owned(), "a-secret".to_owned().into())),
        authorities: None,
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(30),
    }
}

fn refused(settings: &BucketSettings) -> String {
    settings.check().unwrap_err().to_string()
}

#[test]
fn an_endpoint_is_the_address_of_a_host_and_nothing_more() {
    for good in [
        "",
        "https://s3.example.com",
        "https://s3.example.com/",
        "https://s3.example.com:9000",
        "https://[2001:db8::1]:9000",
        "http://127.0.0.1:9000",
        "http://localhost:9000",
        "http://[::1]:9000",
    ] {
        assert!(bucket(good).check().is_ok(), "{good}");
    }
    for wrong in [
        "s3.example.com",
        "ftp://s3.example.com",
        "https://",
        "https://s3.example.com/bucket",
        "https://s3.example.com?region=x",
        "https://id:secret@s3.example.com",
        "https://s3.example.com:port",
        "https://s3.example.com:",
        "https://s3.example.com:65536",
        "https://s3 example.com",
    ] {
        let told = bucket(wrong).check().map_err(|error| error.to_string());
        let expected = "the endpoint must be https://HOST or https://HOST:PORT";
        assert_eq!(told, Err(expected.to_owned()), "{wrong}");
    }
}

#[test]
fn another_machine_is_reached_without_tls_only_if_that_is_allowed() {
    for host in ["s3.example.com", "10.0.0.1:9000", "127.0.0.1.example.com", "localhost.example"] {
        let settings = bucket(&format!("http://{host}"));
        assert!(refused(&settings).starts_with("the endpoint is reached without TLS"), "{host}");
        assert!(BucketSettings { allow_http: true, ..settings }.check().is_ok(), "{host}");
    }
}

#[test]
fn authorities_that_are_no_certificates_are_refused() {
    let text =
        b"-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
    let settings =
        BucketSettings { authorities: Some(text.to_vec()), ..bucket("https://s3.example.com") };

    assert!(settings.check().is_err());
}

#[test]
fn settings_are_shown_without_their_credentials() {
    let shown = format!("{:?}", bucket("https://s3.example.com"));

    assert_eq!(shown, "BucketSettings(exports at \"https://s3.example.com\")");
}

#[test]
fn a_place_that_is_no_folder_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    std::fs::write(&file, b"x").unwrap();
    let opened = |place, work_folder| Storage::open(&StorageSettings { place, work_folder });

    for path in [file.clone(), file.join("below")] {
        let told = opened(StorageLocation::Folder(path), PathBuf::new()).unwrap_err().to_string();
        assert!(told.starts_with("the folder cannot be used: "), "{told}");
    }
    let place = StorageLocation::Bucket(bucket("https://s3.example.com"));
    let told = opened(place, file.clone()).unwrap_err().to_string();
    assert!(told.starts_with("the folder for work cannot be used: "), "{told}");
    assert_eq!(std::fs::read(file).unwrap(), b"x");
}

#[tokio::test]
async fn a_signed_address_carries_its_limits_and_never_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let place = StorageLocation::Bucket(bucket("https://s3.example.com"));
    let work_folder = folder.path().join("work");
    let storage = Storage::open(&StorageSettings { place, work_folder }).unwrap();
    let name = storage::ObjectName::new("exports/exp_1/2/data.csv").unwrap();
    let signed = |file_name: &'static str| {
        storage.presign_get(&name, Duration::from_mins(10), file_name, "text/csv")
    };

    let address = signed("fans.csv").await.unwrap().unwrap();

    let begins = "https://s3.example.com/exports/exports/exp_1/2/data.csv?";
    assert!(address.starts_with(begins), "{address}");
    for part in ["X-Amz-Expires=600", "filename%3D%22fans.csv%22", "text%2Fcsv", "an-id"] {
        assert!(address.contains(part), "{address}\nlacks {part}");
    }
    assert!(!address.contains("a-secret"), "{address}");
    for wrong in ["", "a/b.csv", "a\".csv", "a\r\nb.csv", ".csv"] {
        let refused = signed(wrong).await.unwrap_err();
        assert!(!refused.retryable, "{wrong:?}");
    }
}
