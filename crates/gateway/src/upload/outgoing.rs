//! The outgoing form of an upload: the fields, then the file as it is read from disk (RFC 7578).

use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use platform_client::RequestBody;
use tokio::task::JoinHandle;

use super::form::UploadForm;
use super::spool::UnnamedFile;

/// Bytes per read from disk.
const READ_BYTES: u64 = 64 * 1024;

/// The content type and the body of the request. `boundary` must be unpredictable hexadecimal
/// digits.
pub(super) fn request_body(form: &UploadForm, boundary: &str) -> (HeaderValue, RequestBody) {
    let mut head = String::new();
    // Writing to a string cannot fail.
    for (name, value) in &form.fields {
        let _written = write!(
            head,
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    }
    let _written = write!(
        head,
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
         Content-Type: {}\r\n\r\n",
        quoted(&form.file_name),
        form.content_type
    );
    let body = OutgoingForm {
        head: Bytes::from(head),
        file: form.file.file(),
        at: 0,
        end: form.file.bytes(),
        reading: None,
        tail: Bytes::from(format!("\r\n--{boundary}--\r\n")),
    };
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let content_type = HeaderValue::from_str(&content_type)
        .unwrap_or_else(|_| HeaderValue::from_static("multipart/form-data"));
    (content_type, RequestBody::spooled(body))
}

/// A file name as browsers write it into a form: quotes and line breaks are encoded.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// A form of known length. One piece of its file is in memory at a time.
struct OutgoingForm {
    head: Bytes,
    file: Arc<UnnamedFile>,
    at: u64,
    end: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    tail: Bytes,
}

impl Body for OutgoingForm {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if !this.head.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.head)))));
        }
        if this.at < this.end {
            let (file, at) = (&this.file, this.at);
            let bytes = usize::try_from(READ_BYTES.min(this.end - at)).unwrap_or(0);
            let reading = this.reading.get_or_insert_with(|| {
                let file = Arc::clone(file);
                tokio::task::spawn_blocking(move || file.read_at(at, bytes))
            });
            let read = ready!(Pin::new(reading).poll(context));
            this.reading = None;
            let piece = read.map_err(io::Error::other)??;
            this.at += u64::try_from(piece.len()).unwrap_or(u64::MAX);
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let tail = std::mem::take(&mut this.tail);
        Poll::Ready((!tail.is_empty()).then(|| Ok(Frame::data(tail))))
    }

    fn is_end_stream(&self) -> bool {
        self.tail.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let framing = u64::try_from(self.head.len() + self.tail.len()).unwrap_or(u64::MAX);
        SizeHint::with_exact(framing.saturating_add(self.end - self.at))
    }
}
