//! The look of the block page. It is the look of the web interface, without scripts, fonts or
//! pictures. The page may apply only its own style sheet, which its Content-Security-Policy
//! identifies by hash.

use std::sync::LazyLock;

use aws_lc_rs::digest;
use data_encoding::BASE64;
use hyper::header::HeaderValue;

use super::words::Words;

/// The style sheet. Colours, sizes and radii are those of `ui/src/styles/tokens.css`.
const STYLE: &str = "\
:root{color-scheme:light dark;--bg:light-dark(#f5f6f7,#0d1317);\
--surface:light-dark(#fff,#141c22);--line:light-dark(#dde2e6,#263139);\
--edge:light-dark(#86939e,#5d6f7c);--text:light-dark(#13202a,#e8eef2);\
--text-2:light-dark(#4a5965,#a6b5c0);--accent:light-dark(#0b6b72,#4fc1c5);\
--on-accent:light-dark(#fff,#04191b);--bad:light-dark(#b3243c,#ff8b95)}\
*{box-sizing:border-box}\
body{margin:0;padding:8vh 1rem 2rem;background:var(--bg);color:var(--text);\
font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','Liberation Sans',sans-serif}\
main{max-width:36rem;margin:auto;padding:1.5rem 2rem 2rem;background:var(--surface);\
border:1px solid var(--line);border-radius:12px}\
header{display:flex;align-items:center;gap:.5rem;margin-bottom:1.5rem;font-size:.875rem;\
font-weight:650;color:var(--text-2)}\
svg{width:1.5rem;height:1.5rem}\
h1{margin:0 0 .5rem;font-size:1.5rem;line-height:1.25;letter-spacing:-.01em;\
overflow-wrap:anywhere}\
.blocked h1{color:var(--bad)}\
p{margin:0 0 1rem}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;margin:1.5rem 0;\
padding:1rem 0;border:solid var(--line);border-width:1px 0}\
dt{color:var(--text-2)}\
dd{margin:0;overflow-wrap:anywhere}\
label{display:block;margin-bottom:.25rem;font-size:.875rem;color:var(--text-2)}\
input,button{width:100%;padding:.5rem .75rem;font:inherit;border-radius:8px}\
input{margin-bottom:.75rem;color:inherit;background:var(--bg);border:1px solid var(--edge)}\
button{color:var(--on-accent);background:var(--accent);border:1px solid transparent;\
font-weight:650;cursor:pointer}\
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}\
@media(max-width:30rem){body{padding-top:1rem}main{padding:1rem}dl{display:block}\
dd{margin-bottom:.5rem}}";

/// The emblem, as in `ui/public/icon.svg`.
const EMBLEM: &str = "<svg viewBox=\"0 0 32 32\" aria-hidden=\"true\"><rect width=\"32\" \
height=\"32\" rx=\"7\" fill=\"#12343b\"/><path d=\"M6 9c2.5-.6 4 .2 5.2 2.2 1 1.7 2.4 2.6 4.8 2.8 \
5.3.4 8.4 2.6 10 6.5-2.7 2.6-6.2 3.7-9.8 3.3-4.3-.5-7-3.3-7.4-7.3-.2-2 .1-3.3-.4-4.5C8 10.9 7.2 10 \
4 6.5c.9.9 1.4 2 2 2.5z\" fill=\"#fff\"/><path d=\"M15 16.5c3.5 0 6.5 1 9 4-3.5 1-7 .4-9-4z\" \
fill=\"#12343b\"/><circle cx=\"10\" cy=\"11.6\" r=\"1\" fill=\"#12343b\"/></svg>";

/// The Content-Security-Policy of the page. The page may run, load and frame nothing, applies only
/// its own style sheet, and sends its form to no other host.
pub(super) static CONTENT_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = BASE64.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()).as_ref());
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// The subject of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// A blocked name.
    Blocked,
    /// Another subject than a blocked name.
    Other,
}

/// Returns a page. Its title and its text are markup.
pub(super) fn page(words: &Words, subject: Subject, title: &str, text: &str) -> String {
    let (language, class) = (
        words.language,
        match subject {
            Subject::Blocked => " class=\"blocked\"",
            Subject::Other => "",
        },
    );
    format!(
        "<!doctype html><html lang=\"{language}\"><head><meta charset=\"utf-8\"><meta \
         name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main{class}><header>{EMBLEM}Avocet</header>\
         <h1>{title}</h1>{text}</main></body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_has_the_hash_of_the_style_sheet() {
        let policy = CONTENT_POLICY.to_str().unwrap();
        assert!(policy.contains("style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
