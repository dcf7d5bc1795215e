//! The interface for browsers: the files of `ui/dist`, which the build embeds. Every other address,
//! except paths of the API, has the same page, which interprets the address.

use std::io::Read;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    VARY,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Response, StatusCode};
use flate2::read::GzDecoder;

use crate::conditional::{fingerprint, matches};
use crate::pages;
use crate::problem::{INTERNAL, NO_METHOD, NOT_FOUND};

/// All files of the interface, or none if the server was built without the interface.
const FILES: &[EmbeddedFile] = include!(concat!(env!("OUT_DIR"), "/files.rs"));
/// The page.
const PAGE: &str = "index.html";
/// The directory of the files with a digest of their content in their names.
const HASHED: &str = "assets/";
/// Paths that are not for browsers: unknown paths below them are an error.
const OTHERS: [&str; 5] = ["api", "assets", "metrics", "health", "ready"];

/// A file.
struct EmbeddedFile {
    path: &'static str,
    /// The content in gzip.
    packed: &'static [u8],
}

impl EmbeddedFile {
    /// Returns the media type.
    fn kind(&self) -> &'static str {
        match self.path.rsplit('.').next().unwrap_or_default() {
            "html" => pages::HTML,
            "js" => pages::SCRIPT,
            "css" => pages::STYLE,
            "svg" => "image/svg+xml",
            "png" => "image/png",
            "json" | "webmanifest" => "application/json",
            _ => "application/octet-stream",
        }
    }

    /// Returns the entity tag: the name if it has a digest, or a digest of the content.
    fn tag(&self) -> String {
        match self.path.strip_prefix(HASHED) {
            Some(name) => format!("\"{name}\""),
            None => format!("\"{}\"", &fingerprint(&[self.packed])[..32]),
        }
    }

    /// Returns the file, compressed if the browser accepts that. If the browser has the file
    /// already, returns a response without it.
    fn response(&self, head: &Parts) -> Response<Body> {
        let tag = self.tag();
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let caching = match self.path.starts_with(HASHED) {
            true => "public, max-age=31536000, immutable",
            false => "no-cache",
        };
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind()));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        if header(IF_NONE_MATCH).is_some_and(|known| matches(known, &tag)) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        if header(ACCEPT_ENCODING).is_some_and(takes_gzip) {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            *response.body_mut() = Body::from(self.packed);
            return response;
        }
        let mut text = Vec::new();
        if let Err(error) = GzDecoder::new(self.packed).read_to_end(&mut text) {
            return INTERNAL.of(error.to_string()).response();
        }
        *response.body_mut() = Body::from(text);
        response
    }
}

/// Returns whether an Accept-Encoding header permits gzip.
fn takes_gzip(header: &str) -> bool {
    header.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(|part| part == "q=0" || part.starts_with("q=0.0"))
    })
}

/// Reports whether this build has the interface.
pub(crate) fn is_embedded() -> bool {
    FILES.iter().any(|file| file.path == PAGE)
}

/// Reports whether a path may be the address of a page: `/queries`, or a part such as
/// `/devices/192.0.2.1`.
fn is_page(path: &str) -> bool {
    let mut segments = path.strip_suffix('/').unwrap_or(path).split('/');
    let is_word =
        |page: &str| page.bytes().all(|octet| octet.is_ascii_lowercase() || octet == b'-');
    let is_plain = |segment: &str| !matches!(segment, "" | "." | "..");
    path.is_empty()
        || segments.next().is_some_and(|page| !page.is_empty() && is_word(page))
            && segments.all(is_plain)
}

/// Serves a path that no route has.
pub(crate) fn serve(head: &Parts) -> Response<Body> {
    let path = head.uri.path().strip_prefix('/').unwrap_or_default();
    let first = path.split('/').next().unwrap_or_default();
    let file = FILES.iter().find(|file| file.path == path);
    if file.is_none() && (OTHERS.contains(&first) || !is_page(path)) {
        return NOT_FOUND.of("there is nothing at this path").response();
    }
    if head.method != Method::GET && head.method != Method::HEAD {
        let mut response = NO_METHOD.of(format!("pages do not take {}", head.method)).response();
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match file.or_else(|| FILES.iter().find(|file| file.path == PAGE)) {
        Some(file) => file.response(head),
        None if path.is_empty() => pages::absent(),
        None => NOT_FOUND.of("this server was built without the interface").response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    /// The octets of "hello" in gzip.
    const PACKED: &[u8] = &[
        31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0,
        0,
    ];

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::new(());
        for (name, value) in headers {
            let name = axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        request.into_parts().0
    }

    fn body(response: Response<Body>) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let octets = axum::body::to_bytes(response.into_body(), 1000);
        runtime.block_on(octets).unwrap().to_vec()
    }

    #[test]
    fn a_file_is_sent_as_the_browser_takes_it_and_once() {
        let file = EmbeddedFile { path: "assets/a-1.js", packed: PACKED };
        let packed = file.response(&head(&[("accept-encoding", "br, gzip")]));
        assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(packed.headers()[CONTENT_TYPE], "text/javascript; charset=utf-8");
        assert!(packed.headers()[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        let tag = packed.headers()[ETAG].to_str().unwrap().to_owned();
        assert_eq!(body(packed), PACKED);
        let plain = file.response(&head(&[("accept-encoding", "gzip;q=0")]));
        assert_eq!(body(plain), b"hello");
        let known = file.response(&head(&[("if-none-match", &tag)]));
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        let page = EmbeddedFile { path: PAGE, packed: PACKED };
        assert_eq!(page.response(&head(&[])).headers()[CACHE_CONTROL], "no-cache");
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_has_no_script_of_its_own() {
        for file in FILES.iter().filter(|file| file.path == PAGE) {
            let mut text = String::new();
            GzDecoder::new(file.packed).read_to_string(&mut text).unwrap();
            for banned in ["http://", "https://", "style=", "<style", "<script>", "onload="] {
                assert!(!text.contains(banned), "{banned}");
            }
        }
    }
}
