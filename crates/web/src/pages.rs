//! Pages for browsers: set-up and the viewer of the OpenAPI document. They load nothing from
//! elsewhere, and put nothing into markup: their scripts only set texts.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};

/// The Content-Security-Policy of pages.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                                 connect-src 'self'; img-src 'self'; form-action 'none'; base-uri \
                                 'none'; frame-ancestors 'none'";

/// The page after a log-in by a provider. Browsers send the session cookie with requests that begin
/// at this page, but not with a request to which the provider redirects.
pub(crate) const LOGGED_IN: &str = include_str!("pages/logged-in.html");
pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const SCRIPT: &str = "text/javascript; charset=utf-8";
pub(crate) const STYLE: &str = "text/css; charset=utf-8";

/// Returns the page of a server without the interface.
pub(crate) fn absent() -> Response<Body> {
    Page { path: "/", kind: HTML, text: include_str!("pages/absent.html") }.response()
}

/// A file that is served without changes.
pub(crate) struct Page {
    /// The whole path.
    pub(crate) path: &'static str,
    kind: &'static str,
    text: &'static str,
}

/// The page for the first user.
pub(crate) const SET_UP: &str = "/setup";

/// All pages, and the files that they load.
pub(crate) const PAGES: &[Page] = &[
    Page { path: SET_UP, kind: HTML, text: include_str!("pages/setup.html") },
    Page { path: "/setup.js", kind: SCRIPT, text: include_str!("pages/setup.js") },
    Page { path: "/api/v1/docs", kind: HTML, text: include_str!("pages/viewer.html") },
    Page { path: "/api/v1/viewer.js", kind: SCRIPT, text: include_str!("pages/viewer.js") },
    Page { path: "/api/v1/style.css", kind: STYLE, text: include_str!("pages/style.css") },
];

impl Page {
    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.text));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_load_nothing_from_elsewhere_and_build_no_markup() {
        for page in PAGES {
            for banned in
                ["http://", "https://", "//cdn", "innerHTML", "eval(", "style=", "onclick"]
            {
                assert!(!page.text.contains(banned), "{} has {banned}", page.path);
            }
        }
    }
}
