//! An HTTP/2 client that sends exactly the given frames (RFC 9113), for tests of frames that no
//! valid client sends. Headers are sent uncompressed, and responses must not use a dynamic table.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The time after which a test fails if an expected frame has not arrived.
const PATIENCE: Duration = Duration::from_secs(25);

/// The first bytes of a connection: the preface, and settings with `HEADER_TABLE_SIZE` 0.
const START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x01\0\0\0\0";

/// A frame of a body.
pub const DATA: u8 = 0;
/// A frame that begins a stream.
pub const HEADERS: u8 = 1;
/// A frame that ends a stream with an error.
pub const RESET: u8 = 3;
/// A frame that ends a connection.
pub const GO_AWAY: u8 = 7;
/// A frame that allows the peer to send more.
pub const WINDOW_UPDATE: u8 = 8;
/// A frame that continues headers.
pub const CONTINUATION: u8 = 9;

/// The flag of the last frame of a stream.
pub const END_STREAM: u8 = 1;
/// The flag of the last frame of headers.
pub const END_HEADERS: u8 = 4;

/// The error code for a connection closed because its peer causes too much load.
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// A connection to the service, frame by frame.
pub struct Http2 {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With a response of this status.
    Answer(u16),
    /// Only the stream was reset, with this code.
    Reset(u32),
    /// The connection was closed, with this code if one was sent.
    Closed(Option<u32>),
}

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The headers of a request, in order, each as a literal without indexing.
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            put_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// A length with a prefix of seven bits (RFC 7541, section 5.1).
fn put_length(block: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else {
        block.push(u8::try_from(length).unwrap());
        return;
    };
    block.push(127);
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
}

impl Http2 {
    /// Connects to the service and sends the first bytes.
    pub async fn open(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(START).await.unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Sends bytes; a service that has closed the connection does not receive them.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Waits until the stream has ended.
    pub async fn ended(&mut self, stream: u32) -> Ended {
        loop {
            let Some((kind, of, payload)) = self.frame().await else { return Ended::Closed(None) };
            let code = |at: usize| {
                let bytes = payload.get(at..at + 4).unwrap();
                u32::from_be_bytes(bytes.try_into().unwrap())
            };
            match kind {
                HEADERS if of == stream => return Ended::Answer(status(&payload)),
                RESET if of == stream => return Ended::Reset(code(0)),
                // A GOAWAY without an error lets running streams complete.
                GO_AWAY if code(4) != 0 => return Ended::Closed(Some(code(4))),
                _ => {}
            }
        }
    }

    /// The next frame: its kind, stream and payload; `None` when the connection has ended.
    async fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let head = self.take(9).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.take(usize::try_from(length).unwrap()).await?;
        Some((head[3], stream, payload))
    }

    async fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.unread.len() < count {
            let read = self.stream.read_buf(&mut self.unread);
            let read = tokio::time::timeout(PATIENCE, read).await;
            let read = read.expect("the service neither responds nor closes the connection");
            if !read.is_ok_and(|bytes| bytes > 0) {
                return None;
            }
        }
        let rest = self.unread.split_off(count);
        Some(std::mem::replace(&mut self.unread, rest))
    }
}

/// The status of a response, which is its first header.
fn status(block: &[u8]) -> u16 {
    // Dynamic table size updates may precede it.
    let block = &block[block.iter().position(|byte| byte & 0xe0 != 0x20).unwrap()..];
    let known = [200, 204, 206, 304, 400, 404, 500];
    match block[0] {
        indexed @ 0x88..=0x8e => known[usize::from(indexed - 0x88)],
        0x48 | 0x08 | 0x18 => {
            let length = usize::from(block[1] & 0x7f);
            let text = &block[2..2 + length];
            let digits = if block[1] & 0x80 == 0 { text.to_vec() } else { digits(text) };
            String::from_utf8(digits).unwrap().parse().unwrap()
        }
        other => panic!("{other:#x} is not a status"),
    }
}

/// Three digits in HPACK's Huffman code (RFC 7541, appendix B): 0 to 2 have five bits, the others
/// six.
fn digits(coded: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> =
        coded.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let number = |of: &[u8]| of.iter().fold(0, |number, bit| number * 2 + bit);
    let (mut digits, mut rest) = (Vec::new(), &bits[..]);
    while digits.len() < 3 {
        let short = number(&rest[..5]);
        let (digit, length) = if short < 3 { (short, 5) } else { (number(&rest[..6]) - 0x16, 6) };
        digits.push(b'0' + digit);
        rest = &rest[length..];
    }
    digits
}
