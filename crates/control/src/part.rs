//! The parts of a reply, which are sent before its end.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of a reply that is sent before its end.
pub trait Part: Serialize + DeserializeOwned + JsonSchema {
    /// Whether the client gets the part immediately, and not together with the following parts.
    const IS_URGENT: bool = false;

    /// Appends the part as JSON.
    fn write_json(&self, out: &mut Vec<u8>) {
        write_json(self, out);
    }
}

/// Appends a part as JSON, which can hold the texts and numbers of parts.
pub(crate) fn write_json(part: &impl Serialize, out: &mut Vec<u8>) {
    let length = out.len();
    if serde_json::to_writer(&mut *out, part).is_err() {
        out.truncate(length);
    }
}

/// A function that takes the parts of a reply while the server produces them.
pub type Parts<'a, P> = &'a mut dyn FnMut(P) -> Result<(), Disconnected>;

/// An error: the client disconnected before its reply was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disconnected;

/// The type of the parts of a reply without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPart {}

impl Part for NoPart {}

impl Serialize for NoPart {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}

impl<'de> Deserialize<'de> for NoPart {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("this reply has one line"))
    }
}

impl JsonSchema for NoPart {
    fn schema_name() -> Cow<'static, str> {
        "NoPart".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        false.into()
    }
}
