//! A proxy with a login: CONNECT or SOCKS5, written from the documents of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::drawn::ProxyQuirk;

/// A running proxy.
pub(super) struct TestProxy {
    pub(super) address: String,
    tunnels: Arc<AtomicUsize>,
}

impl TestProxy {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test's runtime ends these tasks with itself"
    )]
    pub(super) async fn start(quirk: ProxyQuirk) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let tunnels: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&tunnels);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (quirk, counted) = (quirk.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    carry(client, &quirk, &counted).await;
                });
            }
        });
        Self { address, tunnels }
    }

    /// How many connections it carried.
    pub(super) fn tunnels(&self) -> usize {
        self.tunnels.load(Ordering::SeqCst)
    }
}

async fn carry(mut client: TcpStream, quirk: &ProxyQuirk, tunnels: &AtomicUsize) -> Option<()> {
    let to = if quirk.is_socks {
        greet_socks(&mut client, quirk).await?
    } else {
        greet_http(&mut client, quirk).await?
    };
    let mut platform = TcpStream::connect(to).await.ok()?;
    tunnels.fetch_add(1, Ordering::SeqCst);
    let accepted: &[u8] =
        if quirk.is_socks { &[5, 0, 0, 1, 127, 0, 0, 1, 0, 9] } else { b"HTTP/1.1 200 OK\r\n\r\n" };
    client.write_all(accepted).await.ok()?;
    copy_bidirectional(&mut client, &mut platform).await.ok()?;
    Some(())
}

async fn greet_http(client: &mut TcpStream, quirk: &ProxyQuirk) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let login = STANDARD.encode(format!("{}:{}", quirk.user, quirk.password));
    let has_login = head.lines().any(|line| {
        line.split_once(": ").is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("proxy-authorization") && value == format!("Basic {login}")
        })
    });
    if !has_login {
        client.write_all(b"HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n").await.ok()?;
        return None;
    }
    head.strip_prefix("CONNECT ")?.split(' ').next().map(str::to_owned)
}

async fn some(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::from(client.read_u8().await.ok()?)];
    client.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

/// RFC 1928 with the login of RFC 1929.
async fn greet_socks(client: &mut TcpStream, quirk: &ProxyQuirk) -> Option<String> {
    let version = client.read_u8().await.ok()?;
    let methods = some(client).await?;
    (version == 5 && methods.contains(&2)).then_some(())?;
    client.write_all(&[5, 2]).await.ok()?;
    client.read_u8().await.ok()?;
    let (user, password) = (some(client).await?, some(client).await?);
    let is_known = user == quirk.user.as_bytes() && password == quirk.password.as_bytes();
    client.write_all(&[1, u8::from(!is_known)]).await.ok()?;
    is_known.then_some(())?;
    let mut request = [0; 4];
    client.read_exact(&mut request).await.ok()?;
    let host = match request {
        [5, 1, 0, 1] => {
            let mut address = [0; 4];
            client.read_exact(&mut address).await.ok()?;
            std::net::Ipv4Addr::from(address).to_string()
        }
        [5, 1, 0, 3] => String::from_utf8(some(client).await?).ok()?,
        _ => return None,
    };
    Some(format!("{host}:{}", client.read_u16().await.ok()?))
}
