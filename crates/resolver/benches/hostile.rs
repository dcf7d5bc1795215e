//! The cost of replies of 64 KiB that a server fills with records that are expensive to read.
//!
//! `cargo bench -p avocet-resolver --bench hostile` prints, for each kind of reply, how many
//! replies one question reads, and the time for one reply: the minimum of [`ROUNDS`] questions. A
//! reply may take 1 ms at most, and a question 20 ms. The test
//! `a_reply_of_64_kib_and_a_question_cost_bounded_instructions` checks both limits by counts of
//! instructions.

#![expect(clippy::unwrap_used, reason = "a failure is the bench's result")]

#[path = "../tests/recursion/replies.rs"]
mod replies;
#[expect(dead_code, reason = "what the tests use of it is more")]
#[path = "../tests/recursion/world.rs"]
mod world;

use std::time::Duration;

use avocet_resolver::Recursion;
use avocet_wire::header::TC;

use replies::{Message, REPLIES, Reply};
use world::{World, authority, recursion};

const ROUNDS: usize = 20;

fn main() {
    for (name, reply) in REPLIES {
        let rounds = (0..ROUNDS).map(|_| ask(*reply));
        let (count, spent) = rounds.min_by_key(|(_, spent)| *spent).unwrap();
        let each = spent / count.max(1);
        println!("{name:40} {count:3} replies, {:6} us each", each.as_micros());
    }
}

/// Resolves a question of eleven labels. Returns the number of these replies that the resolver
/// read, and the time for all of them.
fn ask(reply: Reply) -> (u32, Duration) {
    let mut world = World::new(Recursion { qname_minimisation: true, ..recursion() });
    let down: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
    world.serve(1, authority(".", &[("*example. A", down)]));
    let mut number = 0;
    world.serve_octets(
        2,
        Box::new(move |query| {
            if !query.over_tcp {
                return vec![Message::to(query, TC).finish()];
            }
            number += 1;
            vec![reply(query, number - 1).finish()]
        }),
    );
    world.resolve("a.b.c.d.e.f.g.h.i.j.example. A");
    let sent = world.take_sent();
    (sent.iter().filter(|line| line.ends_with("by TCP")).count() as u32, world.in_replies)
}
