//! The player of scenarios: runs the steps in order, and the network between them.

use std::collections::HashMap;
use std::net::SocketAddr;

use avocet_wire::MessageView;

use super::authorities::{self, Handled};
use super::check::{self, Differences};
use super::config::Config;
use super::message::{Asked, Envelope, Packet, Question, Transport};
use super::server::{Effect, Moment, Server};
use super::{Dialect, Scenario, Step};
use crate::{Faults, Network};

/// The monotonic clock at the start, in ms.
const START_MS: u64 = 1_000_000;
/// A network without faults, fast enough that TTLs do not change during a resolution.
const NETWORK: Faults = Faults { delay_ms: 1, ..Faults::NONE };
/// Timeout for an answer, in ms.
const ANSWER_MS: u64 = 8_000;
/// Timeout for a query to a server, in ms.
const QUERY_MS: u64 = 6_000;
/// Duration of steps that let the network proceed, in ms.
const PAUSES: [(&str, u64); 4] =
    [("TIMEOUT", 600), ("TRAFFIC", 700), ("NOTHING", 50), ("ASSIGN", 50)];
/// Maximum number of queries of a scenario. A larger number indicates a loop.
const MAX_QUERIES: u64 = 20_000;

/// The outcome of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Whether RCODE, AD, TC and the answers were as expected at every step, or the first
    /// difference.
    pub core: Result<(), String>,
    /// Whether all compared data was as expected, or the first difference.
    pub full: Result<(), String>,
    /// The messages of clients and servers in order.
    pub trace: Vec<String>,
}

/// Plays a scenario. The same seed gives the same outcome.
#[must_use]
pub fn play(scenario: &Scenario, seed: u64) -> Outcome {
    let world = Config::read(scenario).and_then(|config| {
        let server = Server::new(&config, seed)?;
        Ok(World {
            scenario,
            server,
            net: Network::new(seed, START_MS, NETWORK),
            start_wall_secs: config.wall_secs,
            at: 0.0,
            awaited: None,
            asked: Vec::new(),
            lines: HashMap::new(),
            opened: 0,
            clients: Vec::new(),
            queries: 0,
            trace: Vec::new(),
        })
    });
    match world {
        Ok(world) => world.play(),
        Err(error) => Outcome { core: Err(error.clone()), full: Err(error), trace: Vec::new() },
    }
}

/// The index of a socket or connection, and the number of those that were opened before it. Because
/// indexes are reused, only both values together identify a connection.
type Line = (u32, u64);

#[derive(Clone, Debug)]
enum Event {
    ToServer { line: Line, server: SocketAddr, octets: Vec<u8>, transport: Transport },
    ToUs { line: Line, octets: Vec<u8> },
}

/// A client's query and its answer.
struct Client {
    question: Option<Question>,
    answer: Option<Vec<u8>>,
    checked: bool,
}

struct World<'s> {
    scenario: &'s Scenario,
    server: Server,
    net: Network<Event>,
    start_wall_secs: u64,
    /// The step that determines the servers' replies.
    at: f64,
    /// The current step, if it waits for a query.
    awaited: Option<&'s Step>,
    /// Queries to which a step will reply.
    asked: Vec<(Line, Asked)>,
    lines: HashMap<u32, u64>,
    opened: u64,
    clients: Vec<Client>,
    queries: u64,
    trace: Vec<String>,
}

impl<'s> World<'s> {
    fn play(mut self) -> Outcome {
        let (mut core, mut full) = (Ok(()), Ok(()));
        let scenario = self.scenario;
        for (number, step) in scenario.steps.iter().enumerate() {
            let next = scenario.steps.get(number + 1).map_or(step.number, |next| next.number);
            let is_awaited = scenario.dialect == Dialect::Unbound && step.what == "QUERY";
            self.at = if is_awaited { next } else { step.number };
            let is_scripted = matches!(step.what.as_str(), "REPLY" | "CHECK_OUT_QUERY");
            self.awaited = is_scripted.then_some(step);
            let found = self.step(step);
            let told = |text: &String| format!("step {}: {text}", step.number);
            if let Some(other) =
                found.core.iter().chain(&found.others).next().filter(|_| full.is_ok())
            {
                full = Err(told(other));
            }
            if let Some(first) = found.core.first() {
                core = Err(told(first));
                break;
            }
        }
        Outcome { core, full, trace: self.trace }
    }

    fn step(&mut self, step: &'s Step) -> Differences {
        match step.what.as_str() {
            "QUERY" => self.query(step).err(),
            "CHECK_ANSWER" => return self.check_answer(step),
            "TIME_PASSES" => self.time_passes(step).err(),
            "REPLY" | "CHECK_OUT_QUERY" => self.reply(step).err(),
            what => match PAUSES.iter().find(|(name, _)| *name == what) {
                Some((_, pause_ms)) => {
                    self.run(*pause_ms, |_| false);
                    None
                }
                None => Some(format!("{what} cannot be played")),
            },
        }
        .map_or_else(Differences::default, |error| Differences {
            core: vec![error],
            ..Differences::default()
        })
    }

    fn query(&mut self, step: &Step) -> Result<(), String> {
        let entry = step.entry.as_ref().ok_or("a query without an entry")?;
        let packet = entry.packet();
        let has_edns = self.scenario.dialect != Dialect::Unbound
            || packet.dnssec_ok
            || packet.options.is_some();
        let options = has_edns.then(|| packet.options.as_deref().unwrap_or_default());
        let number = self.clients.len();
        let envelope = Envelope {
            id: number as u16,
            question: None,
            opt: options,
            dnssec_ok: packet.dnssec_ok,
        };
        let query = Packet { rcode: 0, ..packet.clone() };
        let octets = packet.raw.clone().unwrap_or_else(|| query.octets(&envelope));
        self.clients.push(Client {
            question: packet.question().cloned(),
            answer: None,
            checked: false,
        });
        let transport = if entry.is_matched("TCP") { Transport::Tcp } else { Transport::Udp };
        let effects = self.server.query(number, &octets, transport, self.moment());
        self.perform(effects);
        Ok(())
    }

    fn check_answer(&mut self, step: &Step) -> Differences {
        let wrong =
            |text: &str| Differences { core: vec![text.to_owned()], ..Differences::default() };
        let Some(entry) = &step.entry else { return Differences::default() };
        let wanted = entry.packet().question();
        let is_wanted = |client: &Client| match (wanted, &client.question) {
            (Some(wanted), Some(asked)) => {
                wanted.is_of(&asked.qname) && wanted.qtype == asked.qtype
            }
            _ => true,
        };
        let answered = |world: &Self| {
            let mut open = world.clients.iter().enumerate().filter(|(_, client)| !client.checked);
            let by_question =
                open.clone().find(|(_, client)| client.answer.is_some() && is_wanted(client));
            let is_over = open.clone().all(|(_, client)| client.answer.is_some());
            by_question.or_else(|| open.next().filter(|_| is_over)).map(|(number, _)| number)
        };
        self.run(ANSWER_MS, |world| answered(world).is_some());
        let Some(number) = answered(self) else { return wrong("no answer") };
        let client = &mut self.clients[number];
        client.checked = true;
        match &client.answer {
            // A raw message in a scenario does not mean a comparison of octets.
            Some(_) if entry.packet().raw.is_some() => Differences::default(),
            Some(octets) => check::compare(entry, octets),
            None => wrong("no answer"),
        }
    }

    fn time_passes(&mut self, step: &Step) -> Result<(), String> {
        let [kind, secs, ..] = &step.arguments[..] else { return Err("no time".to_owned()) };
        let secs = secs.parse::<f64>().ok().filter(|_| kind == "ELAPSE");
        let elapsed_ms = (secs.ok_or_else(|| format!("{kind} cannot be played"))? * 1000.0) as u64;
        self.run(elapsed_ms, |_| false);
        Ok(())
    }

    /// Waits for the query that this step expects, and sends its reply.
    fn reply(&mut self, step: &Step) -> Result<(), String> {
        let entry = step.entry.as_ref().ok_or("no entry")?;
        let is_it = |(_, asked): &(Line, Asked)| {
            step.server.is_none_or(|server| server == asked.server)
                && authorities::is_for(entry, asked)
        };
        self.run(QUERY_MS, |world| world.asked.iter().any(is_it));
        let at = self.asked.iter().position(is_it).ok_or("no such query was sent")?;
        if step.what == "REPLY" || entry.is_adjusted("copy_id") {
            let (line, asked) = self.asked.remove(at);
            for (after_ms, octets) in authorities::replies(entry, &asked) {
                self.net.send(&Event::ToUs { line, octets }, after_ms);
            }
        }
        Ok(())
    }

    fn moment(&self) -> Moment {
        let wall_secs = self.start_wall_secs + (self.net.now_ms - START_MS) / 1000;
        Moment { now_ms: self.net.now_ms, wall_secs }
    }

    /// Runs for up to `for_ms`, or until `is_done`.
    fn run(&mut self, for_ms: u64, is_done: impl Fn(&Self) -> bool) {
        let until_ms = self.net.now_ms + for_ms;
        while !is_done(self) && self.queries < MAX_QUERIES {
            let next =
                [self.net.next_ms(), self.server.next_deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= until_ms) else {
                self.net.now_ms = until_ms;
                return;
            };
            self.net.now_ms = self.net.now_ms.max(next);
            while let Some(event) = self.net.arrived() {
                self.deliver(event);
            }
            let effects = self.server.tick(self.moment());
            self.perform(effects);
        }
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::ToUs { line: (number, opened), octets } => {
                if self.lines.get(&number) == Some(&opened) {
                    let effects = self.server.reply(number, &octets, self.moment());
                    self.perform(effects);
                }
            }
            Event::ToServer { line, server, octets, transport } => {
                self.at_server(line, Asked::read(&octets, server.ip(), transport));
            }
        }
    }

    fn at_server(&mut self, line: Line, asked: Asked) {
        self.queries += 1;
        self.trace.push(format!("{} ms: {}", self.net.now_ms - START_MS, asked.shown()));
        let is_awaited = self.awaited.is_some_and(|step| {
            let is_there = step.server.is_none_or(|server| server == asked.server);
            is_there && step.entry.as_ref().is_some_and(|entry| authorities::is_for(entry, &asked))
        });
        if is_awaited {
            return self.asked.push((line, asked));
        }
        match authorities::handle(self.scenario, self.at, &asked) {
            Handled::Unlisted => self.asked.push((line, asked)),
            Handled::Replies(replies) => {
                for (after_ms, octets) in replies {
                    self.net.send(&Event::ToUs { line, octets }, after_ms);
                }
            }
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask { line, server, octets, transport } => {
                    self.opened += 1;
                    self.lines.insert(line, self.opened);
                    let line = (line, self.opened);
                    self.net.send(&Event::ToServer { line, server, octets, transport }, 0);
                }
                Effect::Close { line } => {
                    self.lines.remove(&line);
                }
                Effect::Answer { client, octets } => {
                    assert!(MessageView::new(&octets).is_ok(), "an answer is a message");
                    assert!(self.clients[client].answer.is_none(), "one answer each");
                    self.trace.push(format!(
                        "{} ms: {}",
                        self.net.now_ms - START_MS,
                        check::shown(&octets)
                    ));
                    self.clients[client].answer = Some(octets);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a scenario with a server that has `answer`, and a client that asks for it.
    fn scenario(answer: &str, steps: &str, dialect: Dialect) -> Scenario {
        let text = format!(
            "do-ip6: no\nstub-zone:\nname: \".\"\nstub-addr: 192.0.2.1\nCONFIG_END\nSCENARIO_BEGIN x\n\
             RANGE_BEGIN 0 100\nADDRESS 192.0.2.1\nENTRY_BEGIN\nMATCH opcode qname qtype\nADJUST copy_id\n\
             REPLY QR AA NOERROR\nSECTION QUESTION\nwww. IN A\nSECTION ANSWER\n{answer}\nENTRY_END\nRANGE_END\n\
             STEP 1 QUERY\nENTRY_BEGIN\nREPLY RD\nSECTION QUESTION\n{steps}\nSCENARIO_END\n"
        );
        Scenario::read(&text, dialect).unwrap()
    }

    const ASKED: &str = "www. IN A\nENTRY_END\nSTEP 10 CHECK_ANSWER\nENTRY_BEGIN\nMATCH all ttl\n\
                         REPLY QR RD RA NOERROR\nSECTION QUESTION\nwww. IN A\nSECTION ANSWER\n\
                         www. 60 IN A 192.0.2.7\nENTRY_END";

    #[track_caller]
    fn check(answer: &str, core: Result<(), &str>, full: Result<(), &str>) {
        let outcome = play(&scenario(answer, ASKED, Dialect::Own), 1);
        let text = |result: &Result<(), String>| result.clone().err();
        assert_eq!(
            (text(&outcome.core).as_deref(), text(&outcome.full).as_deref()),
            (core.err(), full.err())
        );
    }

    #[test]
    fn what_differs_from_what_is_expected_is_told() {
        check("www. 60 IN A 192.0.2.7", Ok(()), Ok(()));
        let other = "step 10: answer: not expected [www./A], missing [www./A]";
        check("www. 60 IN A 192.0.2.8", Err(other), Err(other));
        check(
            "www. 61 IN A 192.0.2.7",
            Ok(()),
            Err("step 10: TTLs in answer: not expected [www./A], missing [www./A]"),
        );
    }

    #[test]
    fn the_same_seed_plays_the_same() {
        let scenario = scenario("www. 60 IN A 192.0.2.7", ASKED, Dialect::Own);
        assert_eq!(play(&scenario, 7), play(&scenario, 7));
    }

    #[test]
    fn what_a_scenario_does_not_list_is_made_of_its_data_or_refused() {
        let nodata =
            ASKED.replace("www. IN A\n", "www. IN MX\n").replace("www. 60 IN A 192.0.2.7\n", "");
        let answer = "www. 60 IN A 192.0.2.7";
        assert_eq!(play(&scenario(answer, &nodata, Dialect::Unbound), 1).core, Ok(()));
        let refused = play(&scenario(answer, &nodata, Dialect::Own), 1).core;
        assert_eq!(refused, Err("step 10: RCODE 2, expected 0".to_owned()));
    }
}
