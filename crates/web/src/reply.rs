//! The reply to a request, before it becomes a response of HTTP.

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::caller::LinkSecurity;
use crate::conditional::KeptReply;
use crate::cookies::set_cookies;
use crate::own::{CookieChange, OwnContent};
use crate::pages;

/// The result of the work on the blocking thread.
pub(crate) struct WebReply {
    pub(crate) status: StatusCode,
    pub(crate) body: Zeroizing<Vec<u8>>,
    pub(crate) kind: &'static str,
    pub(crate) tag: Option<String>,
    pub(crate) cookie: CookieChange,
    /// The name under which a browser stores the reply.
    pub(crate) file: Option<String>,
    /// The address to which the browser is redirected.
    pub(crate) location: Option<String>,
    /// The user of a provider who logged in.
    pub(crate) user: Option<String>,
}

impl WebReply {
    pub(crate) fn of(value: Value) -> Self {
        let body = Zeroizing::new(serde_json::to_vec(&value).unwrap_or_default());
        Self {
            status: StatusCode::OK,
            body,
            kind: JSON,
            tag: None,
            file: None,
            cookie: CookieChange::None,
            location: None,
            user: None,
        }
    }

    /// Makes a file of the text in a reply, if the reply is a file.
    pub(crate) fn file(value: &Value, media: &[&'static str]) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default();
        let kind = media.iter().find(|kind| **kind == text("media"));
        Self {
            body: Zeroizing::new(text("text").as_bytes().to_vec()),
            kind: kind.unwrap_or(&BINARY),
            file: Some(format!("attachment; filename=\"{}\"", text("file"))),
            ..Self::of(Value::Null)
        }
    }

    pub(crate) fn own(content: OwnContent) -> Self {
        match content {
            OwnContent::Json(value) => Self::of(value),
            OwnContent::Redirect(location) => Self {
                status: StatusCode::SEE_OTHER,
                body: Zeroizing::default(),
                location: Some(location),
                ..Self::of(Value::Null)
            },
            OwnContent::LoggedIn(user) => Self {
                body: Zeroizing::new(pages::LOGGED_IN.into()),
                kind: pages::HTML,
                user: Some(user),
                ..Self::of(Value::Null)
            },
        }
    }
}

pub(crate) const JSON: &str = "application/json";
const BINARY: &str = "application/octet-stream";

pub(crate) fn kept(reply: &WebReply) -> KeptReply {
    KeptReply { status: reply.status.as_u16(), body: reply.body.clone() }
}

pub(crate) fn repeated(kept: KeptReply) -> WebReply {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    WebReply { status, body: kept.body, ..WebReply::of(Value::Null) }
}

pub(crate) fn typed_response(body: Vec<u8>, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(crate) fn response(mut reply: WebReply, security: LinkSecurity) -> Response<Body> {
    let mut response = typed_response(std::mem::take(&mut *reply.body), reply.kind);
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    let all = [(ETAG, reply.tag), (LOCATION, reply.location), (CONTENT_DISPOSITION, reply.file)];
    for (name, text) in all {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(name, value);
        }
    }
    for cookie in set_cookies(&reply.cookie, security) {
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.append(SET_COOKIE, cookie);
        }
    }
    response
}
