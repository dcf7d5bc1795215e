//! The body of an upload. While the body arrives, it is stored as a file of the data directory, so
//! that memory does not limit its size.

use std::fs::{self, File, OpenOptions};
use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use avocet_io::ownership;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

use crate::problem::{MALFORMED, NOT_JSON, Problem, TIMEOUT, TOO_LARGE, UNAVAILABLE};

/// The media type of an upload. Another site cannot make a browser send it without a preflight
/// request.
pub(crate) const MEDIA: &str = "application/jsonl";
/// The name of the file.
pub(crate) const NAME: &str = "restore.upload";
/// Maximum number of octets of an upload: a backup with the query log at its default size.
const MAX_UPLOAD: u64 = 2 << 30;
/// Longest time without octets from the client.
const SILENCE: Duration = Duration::from_secs(5);
/// Maximum number of chunks that wait for the disk.
const WAITING: usize = 4;

/// Stores a body, which replaces an earlier one.
///
/// # Errors
/// The body has another type, is too large or too slow, or cannot be written. No part of it is kept
/// then.
pub(crate) async fn store(headers: &HeaderMap, body: Body, path: &Path) -> Result<(), Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(MEDIA)) {
        return Err(NOT_JSON.of(format!("the body has the type {kind:?}")).then(SEND_MEDIA));
    }
    let (sender, receiver) = channel(WAITING);
    let target = path.to_owned();
    let writing = tokio::task::spawn_blocking(move || write(&target, receiver));
    let arrived = pass_on(body, |chunk| sender.send(chunk)).await;
    drop(sender);
    let written = writing.await.map_err(io::Error::other).flatten();
    let stored = arrived.and_then(|()| {
        written.map_err(|error| UNAVAILABLE.of(format!("cannot store the upload: {error}")))
    });
    stored.inspect_err(|_| {
        // If nothing was written, there is nothing to remove.
        let _ = fs::remove_file(path);
    })
}

const SEND_MEDIA: &str = "send Content-Type: application/jsonl";

/// Passes on the chunks of a body. A chunk that is refused ends the body, and the writer has the
/// reason.
async fn pass_on<F, E>(mut body: Body, take: impl Fn(Bytes) -> F) -> Result<(), Problem>
where
    F: Future<Output = Result<(), E>>,
{
    let mut octets = 0;
    loop {
        let frame = timeout(SILENCE, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await;
        let frame = frame.map_err(|_| TIMEOUT.of("nothing arrived for 5 seconds"))?;
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|error| MALFORMED.of(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        octets += data.len() as u64;
        if octets > MAX_UPLOAD {
            return Err(TOO_LARGE.of(format!("the body has more than {MAX_UPLOAD} octets")));
        }
        if take(data).await.is_err() {
            return Ok(());
        }
    }
}

fn write(path: &PathBuf, mut chunks: Receiver<Bytes>) -> io::Result<()> {
    drop(ownership::write()?);
    let _ = fs::remove_file(path);
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    while let Some(chunk) = chunks.blocking_recv() {
        file.write_all(&chunk)?;
    }
    file.sync_all()
}
