//! The request for access on the block page: a plain form, which needs no script.
//!
//! The browser sends the form to the blocked name, which resolves to this server. The form has a
//! path of its own, so that forms of programs for blocked names do not become requests for access.
//! A request that another site made the browser send is refused by `Origin` and `Sec-Fetch-Site`;
//! the page therefore lets the browser send `Origin` (`Referrer-Policy: same-origin`).

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, ORIGIN};
use hyper::{Method, Request, StatusCode};

use super::page::Words;
use crate::running::access_requests::MAX_TEXT;

/// The path that the form is sent to.
const PATH: &str = "/.avocet/request-access";
/// Maximum number of octets of a form: the longest text, with each character escaped.
const MAX_BODY: usize = 64 + MAX_TEXT * 12;
const FORM: &str = "application/x-www-form-urlencoded";

/// The reason why a form is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FormFault {
    /// Another site made the browser send the form.
    Foreign,
    /// The body is not a form.
    NotAForm,
    /// The body is too large, or its end is missing.
    TooLarge,
}

impl FormFault {
    /// Returns the status and the text of the response.
    pub(super) const fn response(self) -> (StatusCode, &'static str) {
        match self {
            Self::Foreign => (StatusCode::FORBIDDEN, "another site sent this request\n"),
            Self::NotAForm => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected a form\n"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the form is too large\n"),
        }
    }
}

/// Returns whether a request sends the form of the block page.
pub(super) fn is_form<B>(request: &Request<B>) -> bool {
    request.method() == Method::POST && request.uri().path() == PATH
}

/// Returns the form as markup.
pub(super) fn form(words: &Words) -> String {
    let Words { message, ask, .. } = words;
    format!(
        "<form method=\"post\" action=\"{PATH}\"><label for=\"text\">{message}</label><input \
         id=\"text\" name=\"text\" maxlength=\"{MAX_TEXT}\" \
         autocomplete=\"off\"><button>{ask}</button></form>"
    )
}

/// Reads the text of the form.
///
/// # Errors
/// The form was not sent by the block page, or is malformed.
pub(super) async fn text(request: Request<Incoming>) -> Result<String, FormFault> {
    check(&request)?;
    let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
    let octets = body.map_err(|_| FormFault::TooLarge)?.to_bytes();
    let mut fields = form_urlencoded::parse(&octets);
    Ok(fields.find(|(name, _)| name == "text").map_or_else(String::new, |(_, text)| text.into()))
}

fn check<B>(request: &Request<B>) -> Result<(), FormFault> {
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap_or(""));
    if header("sec-fetch-site").is_some_and(|site| site != "same-origin") {
        return Err(FormFault::Foreign);
    }
    let host = header(HOST.as_str()).unwrap_or_default();
    let is_foreign = |origin: &str| {
        !origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host))
    };
    if header(ORIGIN.as_str()).is_some_and(is_foreign) {
        return Err(FormFault::Foreign);
    }
    let kind = header(CONTENT_TYPE.as_str()).unwrap_or_default();
    match kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(FORM)) {
        true => Ok(()),
        false => Err(FormFault::NotAForm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(headers: &[(&str, &str)], expected: Result<(), FormFault>) {
        let mut request = Request::post(PATH).header("host", "Ads.example");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        assert!(is_form(&request));
        assert_eq!(check(&request), expected, "{headers:?}");
    }

    #[test]
    fn only_the_form_of_the_page_itself_is_taken() {
        let form = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        expect(&[form], Ok(()));
        expect(&[form, ("origin", "http://ads.example")], Ok(()));
        expect(&[form, ("sec-fetch-site", "same-origin")], Ok(()));
        for (name, value) in [
            ("origin", "null"),
            ("origin", "http://evil.example"),
            ("origin", "ads.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
        ] {
            expect(&[form, (name, value)], Err(FormFault::Foreign));
        }
        expect(&[], Err(FormFault::NotAForm));
        expect(&[("content-type", "text/plain")], Err(FormFault::NotAForm));
        for path in ["/", "/.avocet/request-access/x"] {
            assert!(!is_form(&Request::post(path).body(()).unwrap()));
        }
        assert!(!is_form(&Request::get(PATH).body(()).unwrap()));
    }
}
