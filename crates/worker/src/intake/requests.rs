//! The requests of a connection: DNS queries, oblivious queries, and requests for configurations.

use avocet_nameserver::query::Client;
use avocet_nameserver::query::asked::Transport;
use avocet_nameserver::query::miss::Way;
use avocet_session::http::{Replies, RequestContent};
use avocet_session::oblivious::{ObliviousFault, OpenedQuery};

use crate::values::{Answer, Answered};

/// Answers a request. Returns the answer to its query; `None` if the request has its response
/// already, because it has no query.
#[inline]
pub(super) fn answer<'a>(
    octets: &[u8],
    replies: &mut Replies<'_>,
    client: &Client<'_>,
    answer: &'a mut impl Answer,
) -> Option<Answered<'a>> {
    match replies.content() {
        RequestContent::Query => Some(answer.answer(octets, client)),
        RequestContent::Oblivious => match answer.open(octets) {
            Ok(OpenedQuery { query, seal }) => {
                replies.seal_with(seal);
                let client = Client { transport: Transport::Odoh, ..*client };
                Some(answer.answer(&query, &client))
            }
            Err(fault) => {
                replies.reject(fault);
                None
            }
        },
        RequestContent::Proxied => {
            let Way::Stream(route) = client.route else { return None };
            match answer.forward(route, client.ip, replies.parameters(), octets) {
                Ok(()) => Some(Answered::Later),
                Err(fault) => {
                    replies.reject_proxied(fault);
                    None
                }
            }
        }
        RequestContent::Configs => {
            match answer.oblivious_configs() {
                Some(configs) => replies.push(&configs),
                None => replies.reject(ObliviousFault::NoTarget),
            }
            None
        }
    }
}
