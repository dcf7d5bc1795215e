//! Answers about the server itself in class CH (RFC 4892).

use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{AA, QR, RA};
use avocet_wire::{Class, Ede, Rcode, Rtype};

use super::decision::Stage;
use super::finding::{Finding, Offer};
use super::question::LocalQuestion;
use super::respond::{Draft, draft_empty};

/// Longest text in octets: one character-string.
const MAX_TEXT: usize = 255;

/// Texts for `version.bind` and `id.server`. A query for a text that is `None` is refused.
#[derive(Clone, Debug, Default)]
pub struct ChaosTexts {
    /// `version.bind` and `version.server`.
    pub version: Option<String>,
    /// `id.server` and `hostname.bind`.
    pub identity: Option<String>,
}

impl ChaosTexts {
    /// Answers a question of class CH.
    pub(super) fn answer(
        &self,
        question: &LocalQuestion<'_>,
        octets: &[u8],
        out: &mut [u8],
    ) -> Finding {
        let draft = self.draft(question, octets, out);
        Finding::Answer(Offer::made(Stage::Chaos, draft))
    }

    fn draft(&self, question: &LocalQuestion<'_>, octets: &[u8], out: &mut [u8]) -> Draft {
        let text = match question.qname.wire() {
            b"\x07version\x04bind\x00" | b"\x07version\x06server\x00" => self.version.as_deref(),
            b"\x02id\x06server\x00" | b"\x08hostname\x04bind\x00" => self.identity.as_deref(),
            _ => None,
        };
        if let Some(text) = text
            && let Ok(draft) = write(question, text, out)
        {
            return draft;
        }
        let ede = Some((Ede::PROHIBITED, "not configured on this server"));
        Draft { ede, ..draft_empty(out, Some(octets), Rcode::REFUSED) }
    }
}

fn write(question: &LocalQuestion<'_>, text: &str, out: &mut [u8]) -> Result<Draft, Full> {
    let limit = out.len();
    let mut builder = Builder::new(out, limit, 0, QR | AA | RA)?;
    builder.question(&question.qname, question.qtype, Class::CH)?;
    if matches!(question.qtype, Rtype::TXT | Rtype::ANY) {
        let text = &text.as_bytes()[..text.len().min(MAX_TEXT)];
        let mut rdata = vec![text.len() as u8];
        rdata.extend_from_slice(text);
        let record = Record {
            owner: &question.qname,
            rtype: Rtype::TXT,
            class: Class::CH,
            ttl_secs: 0,
            rdata: &rdata,
        };
        builder.record(Section::Answer, &record)?;
    }
    Ok(Draft { len: builder.finish(), rcode: Rcode::NOERROR, ede: None, note: 0 })
}
