//! The input of a run: queries, the zone they are checked against, and the source of unique names.

use std::sync::Arc;

use avocet_wire::{NameBuf, Rtype};

use crate::args::{LoadArgs, Scenario};
use crate::ask::{Form, Questions, Recording, Unique, names, recording};
use crate::check::Zone;
use crate::error::{LoadError, Needed};

/// Default number of generated names.
const POPULATION: u32 = 10_000;

/// Default UDP size in queries with DO. Answers of this size pass every path (RFC 9715).
pub(crate) const DNSSEC_SIZE: u16 = 1232;

/// Number of octets of an answer over UDP that every client accepts without EDNS (RFC 1035 §2.3.4).
const PLAIN_SIZE: usize = 512;

/// The types of the scenario `types`.
const TYPES: [Rtype; 16] = [
    Rtype::A,
    Rtype::AAAA,
    Rtype::MX,
    Rtype::TXT,
    Rtype::NS,
    Rtype::SOA,
    Rtype::CNAME,
    Rtype::PTR,
    Rtype::HINFO,
    Rtype::DS,
    Rtype::DNSKEY,
    Rtype(33),
    Rtype(35),
    Rtype(64),
    Rtype(65),
    Rtype(257),
];

/// The data that is read before a run.
pub(crate) struct Material {
    pub(crate) form: Form,
    pub(crate) zone: Option<Arc<Zone>>,
    /// The queries given on the command line.
    pub(crate) questions: Arc<Questions>,
    /// Times and clients of a recording.
    pub(crate) recording: Option<Recording>,
    zone_name: Option<NameBuf>,
    population: u32,
    seed: u64,
}

impl Material {
    pub(crate) fn read(args: &LoadArgs) -> Result<Self, LoadError> {
        let edns_size = args.edns.or(args.dnssec.then_some(DNSSEC_SIZE));
        let form = Form { edns_size, dnssec_ok: args.dnssec };
        let zone = args.zone_file.as_deref().map(Zone::read_file).transpose()?.map(Arc::new);
        let zone_name = match (&args.zone_name, &zone) {
            (Some(name), _) => Some(names::wire_name(name.as_bytes())?),
            (None, Some(zone)) => Some(*zone.apex()),
            (None, None) => None,
        };
        let population = args.population.unwrap_or(POPULATION);
        let mut material = Self {
            form,
            zone,
            questions: Arc::default(),
            recording: None,
            zone_name,
            population,
            seed: args.seed,
        };
        let mut questions = material.listed(args)?;
        if matches!(
            args.scenario,
            Scenario::Hit | Scenario::Nxdomain | Scenario::Types | Scenario::Blocked
        ) {
            questions.sort_by_length();
        }
        material.questions = Arc::new(questions);
        Ok(material)
    }

    fn listed(&mut self, args: &LoadArgs) -> Result<Questions, LoadError> {
        let Some(path) = &args.names else {
            return self.made_up(args);
        };
        if args.scenario != Scenario::Replay || !recording::is_recording(path) {
            return names::read_file(path, &self.form);
        }
        let mut recording = recording::read_file(path)?;
        let questions = std::mem::take(&mut recording.questions);
        self.recording = Some(recording);
        Ok(questions)
    }

    fn made_up(&self, args: &LoadArgs) -> Result<Questions, LoadError> {
        match (args.scenario, &self.zone) {
            (Scenario::Replay, _) => Err(LoadError::Missing(Needed::Replay)),
            (Scenario::Large, Some(zone)) => self.of_zone(zone.large_rrsets(PLAIN_SIZE)),
            (Scenario::Large, None) => self.numbered("www", &[Rtype::TXT]),
            (Scenario::Nxdomain, _) => self.numbered("nx", &[Rtype::A]),
            (Scenario::Types, _) => self.numbered("www", &TYPES),
            (_, Some(zone)) if args.zone_name.is_none() => self.of_zone(zone.large_rrsets(0)),
            _ => self.numbered("www", &[Rtype::A]),
        }
    }

    fn of_zone(&self, rrsets: Vec<(NameBuf, Rtype)>) -> Result<Questions, LoadError> {
        if rrsets.is_empty() {
            return Err(LoadError::NoLargeRrset(PLAIN_SIZE));
        }
        let mut questions = Questions::default();
        for (owner, rtype) in rrsets.iter().take(self.population as usize) {
            questions.push(&self.form, owner.wire(), *rtype)?;
        }
        Ok(questions)
    }

    /// Returns queries for numbered names under the zone.
    pub(crate) fn numbered(&self, prefix: &str, types: &[Rtype]) -> Result<Questions, LoadError> {
        names::numbered(self.zone_name()?, prefix, self.population, types, &self.form)
    }

    /// Returns queries for the types of the scenario `types`, and queries for names that do not
    /// exist.
    pub(crate) fn types(&self) -> Result<Questions, LoadError> {
        self.numbered("www", &TYPES)
    }

    fn zone_name(&self) -> Result<&NameBuf, LoadError> {
        self.zone_name.as_ref().ok_or(LoadError::Missing(Needed::Names))
    }

    /// Reports whether names can be generated in a zone.
    pub(crate) fn has_zone_name(&self) -> bool {
        self.zone_name.is_some()
    }

    /// Returns previously unused names. Flows of one run use different letters.
    pub(crate) fn unique(&self, letter: u8, salt: u64) -> Result<Unique, LoadError> {
        let zone = self.zone_name.as_ref().ok_or(LoadError::Missing(Needed::UnusedNames))?;
        Unique::under(zone.wire(), letter, &self.form, crate::random::scramble(self.seed ^ salt))
    }
}
