//! dnstap: messages that a DNS server receives and sends, in a stream that other programs read.
//!
//! ```text
//! worker ── TapSender ──ring── TapReceiver ──> TapMessage::write ──> frame::put_data ──> socket
//!                                     file ──> TapFile ──> TapMessage::read
//! ```
//! The crate has no socket and no clock. [`frame`] reads and writes the frames that contain
//! messages, and [`message`] the messages, which are protocol buffers. [`ring`](mod@ring) passes
//! replies from a worker to the thread that writes them.
//!
//! The input of readers is untrusted: every length has a bound, and no function calls itself.
//!
//! ```
//! use avocet_dnstap::frame::put_data;
//! use avocet_dnstap::{ControlKind, MessageKind, TapFile, TapMessage, TapTransport};
//!
//! # fn main() -> Result<(), avocet_dnstap::TapError> {
//! let message = TapMessage {
//!     transport: Some(TapTransport::Udp),
//!     response_message: Some(b"a response in wire format"),
//!     ..TapMessage::of(MessageKind::ClientResponse)
//! };
//! let (mut file, mut octets) = (ControlKind::Start.frame(), Vec::new());
//! message.write(&mut octets);
//! put_data(&mut file, &octets);
//! file.extend(ControlKind::Stop.frame());
//!
//! let mut file = TapFile::open(&file[..])?;
//! assert_eq!(file.read_message()?, Some(message));
//! assert_eq!(file.read_message()?, None);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod frame;
pub mod message;
pub mod ring;

use avocet_protobuf::ProtoError;

pub use frame::{ControlKind, FrameReader, TapFile};
pub use message::{MessageKind, TapMessage, TapTime, TapTransport};
pub use ring::{TapReceiver, TapRecord, TapSender, TappedReply, ring};

/// The reason why a stream or a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The stream cannot be read.
    #[error(transparent)]
    Stream(#[from] std::io::Error),
    /// The file is not a frame stream.
    #[error("not a frame stream: it does not begin with a START frame")]
    NotAStream,
    /// The stream has another content type. Holds this type.
    #[error("the frame stream does not have dnstap messages: its content type is {0:?}")]
    OtherContent(String),
    /// A frame is longer than any message. Holds its length in octets.
    #[error("damaged frame stream: a frame of {0} octets")]
    LongFrame(usize),
    /// A control frame is malformed or unexpected.
    #[error("damaged frame stream: malformed control frame")]
    Control,
    /// A message is not a protocol buffer of dnstap.
    #[error("malformed dnstap message")]
    Message(#[from] ProtoError),
}
