//! Starting all simulators: on which addresses they are, and why they are not started.

use std::error::Error as _;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use simulators::{ProcessorSettings, SimulatorSettings, StartError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::{ask, ask_with};

const PLATFORMS: [&str; 4] =
    ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta"];

/// The address and the path of a URL without TLS.
fn split(url: &str) -> (SocketAddr, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    (address.parse().unwrap(), path)
}

#[tokio::test]
async fn every_platform_and_the_processor_have_a_port_of_their_own() {
    let running = simulators::start(SimulatorSettings::default()).await.unwrap();
    let (processor, _) = split(&running.processor_url());
    let mut ports = vec![running.address().port(), processor.port()];

    for platform in PLATFORMS {
        let url = running.platform_url(platform);
        let (own, base) = split(&url);
        ports.push(own.port());

        assert_eq!(base, format!("/{platform}"));
        for address in [own, running.address()] {
            let (status, _) = ask(address, &format!("GET {base}/no/such/route"), "").await;
            assert!((400..405).contains(&status), "{platform} at {address}: {status}");
        }
    }
    let unknown = running.platform_url("platform_omega");
    assert_eq!(unknown, format!("http://{}/platform_omega", running.address()));
    let all = ports.len();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), all, "{ports:?}");
    running.stop().await;
}

#[tokio::test]
async fn the_urls_of_the_processor_and_of_emails_lead_to_them() {
    let settings =
        ProcessorSettings { secret_key: "sk_test_mine".to_owned(), ..Default::default() };
    let settings = SimulatorSettings { processor: settings, ..SimulatorSettings::default() };
    let running = simulators::start(settings).await.unwrap();
    let (api, _) = split(&running.processor_url());

    for (key, expected) in [("sk_test_mine", 200), ("sk_test_other", 401)] {
        let headers = format!("Authorization: Bearer {key}");
        let (status, _) = ask_with(api, "GET /v1/customers", &headers, "").await;
        assert_eq!(status, expected, "{key}");
    }
    for url in [running.processor_js_url(), running.mail_url()] {
        let (address, path) = split(&url);
        assert_eq!(ask(address, &format!("GET {path}"), "").await.0, 200, "{url}");
    }
    running.stop().await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let occupied = TcpListener::bind(taken).unwrap();
    for settings in [
        SimulatorSettings { listen: taken, ..SimulatorSettings::default() },
        SimulatorSettings { mail_listen: taken, ..SimulatorSettings::default() },
    ] {
        let error = simulators::start(settings).await.unwrap_err();

        assert_eq!(error.to_string(), format!("cannot listen on {taken}"));
        let StartError::Listen { address, source } = error else { panic!("{error:?}") };
        assert_eq!((address, source.kind()), (taken, ErrorKind::AddrInUse));
    }
    drop(occupied);
}

#[tokio::test]
async fn a_data_folder_that_cannot_be_used_is_said_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let damaged = folder.path().join("damaged");
    std::fs::create_dir(&damaged).unwrap();
    std::fs::write(damaged.join("mail.jsonl"), b"no JSON\n").unwrap();

    for data in [file.clone(), file.join("below"), damaged] {
        let settings =
            SimulatorSettings { data: Some(data.clone()), ..SimulatorSettings::default() };
        let error = simulators::start(settings).await.unwrap_err();

        assert!(matches!(error, StartError::Data(_)), "{data:?}: {error:?}");
        assert_eq!(error.to_string(), "the data folder of the simulators cannot be used");
        assert!(error.source().is_some(), "{data:?}");
    }
    assert_eq!(std::fs::read(file).unwrap(), b"x");
}

#[tokio::test]
async fn after_a_stop_no_address_accepts_anything() {
    let running = simulators::start(SimulatorSettings::default()).await.unwrap();
    let (platform, _) = split(&running.platform_url("platform_beta"));
    let addresses = [running.address(), running.mail_address(), platform];
    let mut talk = BufReader::new(TcpStream::connect(running.mail_address()).await.unwrap());
    talk.read_line(&mut String::new()).await.unwrap();

    running.stop().await;

    for address in addresses {
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{address}");
    }
    drop(talk.write_all(b"NOOP\r\n").await);
    let mut said = String::new();
    assert!(!talk.read_line(&mut said).await.is_ok_and(|read| read > 0), "{said}");
}
