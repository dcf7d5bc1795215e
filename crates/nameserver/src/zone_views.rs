//! The hosted zones that each client sees.
//!
//! The key `view` of `[[zone]]` lists groups, networks and listeners (items). The profile of a
//! client contains all facts that decide about views, so a set of zones is made for each kind of
//! profile, in advance. The packet cache has separate answers for each profile, and the RRset cache
//! has no answers of hosted zones. Thus no answer of a view reaches a client of another view.

use std::collections::HashMap;
use std::sync::Arc;

use avocet_config::view_item::{MAX_VIEW_ITEMS, ViewItem, ZoneView};
use avocet_policy::client::{Clients, Profile};
use avocet_zone::{HostedZones, ZoneId};

use crate::StateError;
use crate::policy::Policy;

/// Maximum number of different sets of zones of views. Each set has an entry for each of its zones.
const MAX_SETS: usize = 1_024;

/// A set of view items: one bit for each different item of all views.
pub type ViewBits = u64;

/// The hosted zones by profile. A clone shares the zones.
#[derive(Clone, Debug)]
pub struct ZoneViews {
    /// For each profile, the index of its set of zones in `sets`.
    by_profile: Arc<[u16]>,
    sets: Arc<[HostedZones]>,
    sources: Arc<ViewSources>,
}

/// The inputs from which the sets of zones are made.
#[derive(Debug)]
struct ViewSources {
    views: Box<[ZoneView]>,
    zones: Arc<HostedZones>,
    /// For each profile, the view items that include its clients.
    bits: Box<[ViewBits]>,
}

impl ZoneViews {
    /// Makes the sets of zones; `None` if no zone has a view. The previous sets are shared if they
    /// would be the same.
    ///
    /// # Errors
    /// The clients see too many different sets.
    pub fn of(
        views: &[ZoneView],
        zones: &Arc<HostedZones>,
        policy: Option<&Policy>,
        before: Option<&Self>,
    ) -> Result<Option<Self>, StateError> {
        let Some(bits_of) = policy.map(Policy::view_bits).filter(|bits| !bits.is_empty()) else {
            return Ok(None);
        };
        if let Some(before) = before.filter(|before| before.is_made_from(views, zones, bits_of)) {
            return Ok(Some(before.clone()));
        }
        let viewed = viewed(views);
        let (mut numbers, mut sets) = (HashMap::new(), Vec::new());
        let mut number = |bits: ViewBits| {
            if let Some(number) = numbers.get(&bits) {
                return Ok(*number);
            }
            if sets.len() == MAX_SETS {
                return Err(StateError::TooManyViews(MAX_SETS));
            }
            let number = sets.len() as u16;
            sets.push(zones.for_view(seen(&viewed, bits)));
            numbers.insert(bits, number);
            Ok(number)
        };
        let by_profile = bits_of.iter().map(|bits| number(*bits)).collect::<Result<_, _>>()?;
        let (views, zones, bits) = (views.into(), zones.clone(), bits_of.into());
        let sources = Arc::new(ViewSources { views, zones, bits });
        Ok(Some(Self { by_profile, sets: sets.into(), sources }))
    }

    fn is_made_from(
        &self,
        views: &[ZoneView],
        zones: &Arc<HostedZones>,
        bits: &[ViewBits],
    ) -> bool {
        let made_from = &*self.sources;
        Arc::ptr_eq(&made_from.zones, zones)
            && *made_from.views == *views
            && *made_from.bits == *bits
    }

    /// Returns the zones that clients with this profile see.
    #[inline]
    #[must_use]
    pub fn of_profile(&self, profile: u16) -> Option<&HostedZones> {
        let set = self.by_profile.get(usize::from(profile))?;
        self.sets.get(usize::from(*set))
    }
}

/// A zone that only the clients of its view see.
struct ViewedZone {
    id: ZoneId,
    /// The items of the view.
    bits: ViewBits,
}

fn viewed(views: &[ZoneView]) -> Vec<ViewedZone> {
    let all = items(views);
    let bit = |item: &ViewItem| {
        let place = all.iter().position(|other| *other == item);
        place.map_or(0, |place| 1 << place)
    };
    let zone = |view: &ZoneView| ViewedZone {
        id: view.id(),
        bits: view.items.iter().map(bit).fold(0, |bits, bit| bits | bit),
    };
    views.iter().map(zone).collect()
}

/// Returns the zones that a client with these items sees. If several zones have the same name, the
/// client sees the first.
fn seen(viewed: &[ViewedZone], bits: ViewBits) -> Vec<&ZoneId> {
    let mut seen: HashMap<&[u8], &ZoneId> = HashMap::new();
    for zone in viewed.iter().filter(|zone| zone.bits & bits != 0) {
        seen.entry(&zone.id.name).or_insert(&zone.id);
    }
    seen.into_values().collect()
}

/// Returns the different items of all views, in their order. The configuration limits their number
/// to the number of bits.
fn items(views: &[ZoneView]) -> Vec<&ViewItem> {
    let mut items = Vec::new();
    for item in views.iter().flat_map(|view| &view.items) {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    items.truncate(MAX_VIEW_ITEMS);
    items
}

/// Returns, for each profile, the view items that include its clients; empty if there are no views.
pub(crate) fn view_bits(views: &[ZoneView], clients: &Clients) -> Box<[ViewBits]> {
    let items = items(views);
    if items.is_empty() {
        return Box::default();
    }
    let tests: Vec<_> = items
        .into_iter()
        .map(|item| clients.tests().iter().position(|test| *test == item.test()))
        .collect();
    let of = |profile: u16| {
        let holds =
            |test: &Option<usize>| test.is_some_and(|test| clients.holds(Profile(profile), test));
        let bits = tests.iter().enumerate().filter(|(_, test)| holds(test));
        bits.fold(0, |bits, (place, _)| bits | 1 << place)
    };
    (0..clients.profiles()).map(|profile| of(profile as u16)).collect()
}
