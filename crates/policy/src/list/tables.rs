//! Tables that the compiler builds in addition to names: distinct sets of modifiers and distinct
//! patterns.

use std::collections::{HashMap, HashSet};

use ipnet::IpNet;

use super::binary::Write;
use super::limits::{
    MAX_CLIENT_NETWORKS, MAX_GLOBS, MAX_MODIFIER_OCTETS, MAX_MODIFIERS, MAX_REGEX_TRIES,
    MAX_REGEXES, MAX_REGEXES_OCTETS, MAX_SHARING_LITERAL, MAX_STATES_SHARING_LITERAL,
    MAX_UNFILTERED, MAX_UNFILTERED_STATES,
};
use super::modifier::{ClientTest, Modifiers};
use super::patterns::{self, Checked, PatternKind};
use super::quota::Quota;
use super::reader::Origin;
use super::reason::Reason;

/// Distinct sets of modifiers.
pub(super) struct ModifierTable {
    /// For each set of modifiers, its index plus one.
    places: HashMap<Modifiers, u32>,
    written: Vec<u8>,
    /// The networks that entries name as clients.
    networks: HashSet<IpNet>,
    count: Quota,
    octets: Quota,
    network_count: Quota,
}

impl ModifierTable {
    pub(super) fn empty() -> Self {
        Self {
            places: HashMap::new(),
            written: Vec::new(),
            networks: HashSet::new(),
            count: Quota::of(MAX_MODIFIERS, "modifiers"),
            octets: Quota::of(MAX_MODIFIER_OCTETS, "octets of modifiers"),
            network_count: Quota::of(MAX_CLIENT_NETWORKS, "addresses of clients"),
        }
    }

    /// Starts another list.
    pub(super) const fn begin_list(&mut self) {
        self.count.begin_list();
        self.octets.begin_list();
        self.network_count.begin_list();
    }

    /// Returns the index of a set of modifiers, plus one.
    ///
    /// # Errors
    /// There is no room for the set.
    pub(super) fn place_of(&mut self, modifiers: Modifiers, origin: Origin) -> Result<u32, Reason> {
        if let Some(place) = self.places.get(&modifiers) {
            return Ok(*place);
        }
        let new = self.new_networks(&modifiers);
        let (place, start) = (self.places.len() as u32 + 1, self.written.len());
        modifiers.write(&mut self.written);
        let octets = self.written.len() - start;
        let room =
            self.count.room_for(1, origin).and_then(|()| self.octets.room_for(octets, origin));
        if let Err(reason) = room.and_then(|()| self.network_count.room_for(new.len(), origin)) {
            self.written.truncate(start);
            return Err(reason);
        }
        self.count.take(1);
        self.octets.take(octets);
        self.network_count.take(new.len());
        self.networks.extend(new);
        self.places.insert(modifiers, place);
        Ok(place)
    }

    fn new_networks(&self, modifiers: &Modifiers) -> HashSet<IpNet> {
        let networks = modifiers.clients.iter().filter_map(|subject| match subject.inner() {
            ClientTest::Network(network) => Some(*network),
            ClientTest::Name(_) => None,
        });
        networks.filter(|network| !self.networks.contains(network)).collect()
    }

    /// Returns the section of an image.
    pub(super) fn write(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.written.len() + 8);
        out.number(self.places.len() as u64);
        out.extend_from_slice(&self.written);
        out
    }
}

/// The properties of a pattern, other than its text, that decide whether it is accepted.
#[derive(Clone, Copy)]
pub(super) struct Admission {
    pub(super) origin: Origin,
    /// Whether the modifiers limit the pattern enough that it may match every name.
    pub(super) may_be_every_name: bool,
}

/// Distinct patterns with their rows.
pub(super) struct PatternTable<R> {
    numbers: HashMap<(PatternKind, Box<str>), usize>,
    patterns: Vec<Pattern<R>>,
    globs: Quota,
    regexes: Quota,
    /// Number of parsed expressions. Refused expressions count, because they take time, too.
    tries: Quota,
    unfiltered: Quota,
    unfiltered_states: Quota,
    octets: Quota,
    /// For each literal, the patterns that it selects.
    sharing: HashMap<Vec<u8>, Sharing>,
    /// Number of lists that were read so far.
    lists: usize,
}

struct Pattern<R> {
    form: PatternKind,
    text: Box<str>,
    /// The origin of the pattern. It is the operator's own if at least one of the operator's own
    /// lists has the pattern.
    origin: Origin,
    covers_everything: bool,
    rows: Vec<R>,
}

/// Returns an error if a pattern covers every name and its list may not have such a pattern. The
/// permission of another list with the same pattern does not count.
fn may_cover_everything(form: PatternKind, admission: Admission) -> Result<(), Reason> {
    // Only the operator may block everything except some names.
    let may_invert = form == PatternKind::NotRegex && admission.origin == Origin::Own;
    if admission.may_be_every_name || may_invert { Ok(()) } else { Err(Reason::Everything) }
}

/// The limits for patterns with the same literal, a text that a name must contain before these
/// patterns are tried: for the number of patterns, and for the states of their automata together.
struct Sharing {
    patterns: Quota,
    states: Quota,
    /// The last list with a pattern that the literal selects.
    list: usize,
}

impl Sharing {
    const NONE: Self = Self {
        patterns: Quota::of(MAX_SHARING_LITERAL, SHARED_LETTERS),
        states: Quota::of(MAX_STATES_SHARING_LITERAL, SHARED_LETTERS),
        list: 0,
    };

    fn begin_list(&mut self, list: usize) {
        if self.list != list {
            self.patterns.begin_list();
            self.states.begin_list();
            self.list = list;
        }
    }
}

const SHARED_LETTERS: &str = "patterns that require the same letters";

impl<R> PatternTable<R> {
    pub(super) fn empty() -> Self {
        Self {
            numbers: HashMap::new(),
            patterns: Vec::new(),
            globs: Quota::of(MAX_GLOBS, "patterns"),
            regexes: Quota::of(MAX_REGEXES, "regular expressions"),
            tries: Quota::of(MAX_REGEX_TRIES, "broken regular expressions"),
            unfiltered: Quota::of(MAX_UNFILTERED, "regular expressions without required letters"),
            unfiltered_states: Quota::of(
                MAX_UNFILTERED_STATES,
                "large regular expressions without required letters",
            ),
            octets: Quota::of(MAX_REGEXES_OCTETS, "octets of regular expressions"),
            sharing: HashMap::new(),
            lists: 0,
        }
    }

    /// Starts another list.
    pub(super) fn begin_list(&mut self) {
        self.lists += 1;
        for quota in [
            &mut self.globs,
            &mut self.regexes,
            &mut self.unfiltered,
            &mut self.unfiltered_states,
            &mut self.octets,
        ] {
            quota.begin_list();
        }
    }

    /// Returns the number of patterns.
    pub(super) const fn len(&self) -> usize {
        self.patterns.len()
    }

    /// Adds a row about a pattern.
    ///
    /// # Errors
    /// The pattern is invalid, may not match every name, or there is no room for it.
    pub(super) fn add(
        &mut self,
        (form, text): (PatternKind, &str),
        admission: Admission,
        row: R,
    ) -> Result<(), Reason> {
        let number = match self.numbers.get(&(form, Box::from(text))) {
            Some(number) => {
                if self.patterns[*number].covers_everything {
                    may_cover_everything(form, admission)?;
                }
                *number
            }
            None => self.admit(form, text, admission)?,
        };
        let pattern = &mut self.patterns[number];
        if admission.origin == Origin::Own {
            pattern.origin = Origin::Own;
        }
        pattern.rows.push(row);
        Ok(())
    }

    fn admit(
        &mut self,
        form: PatternKind,
        text: &str,
        admission: Admission,
    ) -> Result<usize, Reason> {
        let origin = admission.origin;
        let count = match form {
            PatternKind::Glob => &self.globs,
            PatternKind::Regex | PatternKind::NotRegex => &self.regexes,
        };
        count.room_for(1, origin)?;
        if form != PatternKind::Glob {
            self.tries.room_for(1, origin)?;
            self.tries.take(1);
        }
        let checked = patterns::check(form, text)?;
        let covers_everything = checked.covers_everything;
        if covers_everything {
            may_cover_everything(form, admission)?;
        }
        self.room_for(&checked, origin)?;
        self.take(form, checked);
        let number = self.patterns.len();
        self.patterns.push(Pattern {
            form,
            text: text.into(),
            origin,
            covers_everything,
            rows: Vec::new(),
        });
        self.numbers.insert((form, text.into()), number);
        Ok(number)
    }

    fn room_for(&mut self, checked: &Checked, origin: Origin) -> Result<(), Reason> {
        self.octets.room_for(checked.octets, origin)?;
        let Some(literals) = &checked.literals else {
            self.unfiltered.room_for(1, origin)?;
            return self.unfiltered_states.room_for(checked.states, origin);
        };
        for literal in literals {
            if let Some(sharing) = self.sharing.get_mut(literal) {
                sharing.begin_list(self.lists);
                sharing.patterns.room_for(1, origin)?;
                sharing.states.room_for(checked.states, origin)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, form: PatternKind, checked: Checked) {
        match form {
            PatternKind::Glob => self.globs.take(1),
            PatternKind::Regex | PatternKind::NotRegex => self.regexes.take(1),
        }
        self.octets.take(checked.octets);
        let Some(literals) = checked.literals else {
            self.unfiltered.take(1);
            return self.unfiltered_states.take(checked.states);
        };
        for literal in literals {
            let sharing = self
                .sharing
                .entry(literal)
                .or_insert(Sharing { list: self.lists, ..Sharing::NONE });
            sharing.patterns.take(1);
            sharing.states.take(checked.states);
        }
    }

    /// Returns the section of an image, with the patterns of the operator's own lists first.
    /// `place` writes the unsorted rows of a pattern and returns their offset.
    pub(super) fn write(self, mut place: impl FnMut(Vec<R>) -> u32) -> Vec<u8> {
        let mut octets = Vec::new();
        octets.number(self.patterns.len() as u64);
        let (own, others): (Vec<_>, Vec<_>) =
            self.patterns.into_iter().partition(|pattern| pattern.origin == Origin::Own);
        octets.number(own.len() as u64);
        for Pattern { form, text, rows, .. } in own.into_iter().chain(others) {
            octets.push(form.octet());
            octets.number(u64::from(place(rows)));
            octets.octets(text.as_bytes());
        }
        octets
    }
}
