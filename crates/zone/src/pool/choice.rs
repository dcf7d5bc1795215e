//! The addresses of a pool that one answer contains. A choice allocates nothing.

use std::net::IpAddr;

use super::health::PoolMasks;
use super::place::{ClientPlace, MemberPlace, nearness};

/// Maximum number of addresses of a pool: their sets fit one word each.
pub const MAX_POOL_ADDRESSES: usize = 64;

/// An address of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolMember {
    /// The address in answers.
    pub address: IpAddr,
    /// The share of the answers in [`PoolMode::Weighted`]; an address with 0 is chosen after all
    /// others.
    pub weight: u32,
    /// The clients near the address, for [`PoolMode::Nearest`].
    pub places: Vec<MemberPlace>,
}

/// The choice among the healthy addresses for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolMode {
    /// All healthy addresses.
    All,
    /// The first address in the order of the configuration.
    First,
    /// Addresses drawn at random by their weights, at most this many.
    Weighted(u8),
    /// At most this number of addresses, each equally often.
    Rotate(u8),
    /// Addresses that are the same for the same client as long as they are healthy, at most this
    /// many.
    Consistent(u8),
    /// The addresses near the client, at most this many.
    Nearest(u8),
}

/// The contents of an answer if no address is healthy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenAllDown {
    /// All addresses that no operator has taken out.
    All,
    /// No address.
    None,
    /// The addresses of `fallback`.
    Fallback,
}

/// The family of the addresses of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressFamily {
    /// A records.
    V4,
    /// AAAA records.
    V6,
}

impl AddressFamily {
    fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }
}

/// The client of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolClient {
    /// The location of the client.
    pub place: ClientPlace,
    /// A number that differs between queries.
    pub turn: u64,
}

/// The rule by which the addresses of an answer are chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRule {
    /// The addresses, at most [`MAX_POOL_ADDRESSES`].
    pub members: Vec<PoolMember>,
    /// The rule that chooses among the healthy addresses.
    pub mode: PoolMode,
    /// The contents of an answer if no address is healthy.
    pub when_all_down: WhenAllDown,
    /// The addresses for [`WhenAllDown::Fallback`].
    pub fallback: Vec<IpAddr>,
}

/// The reason why an answer contains its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChosenBy {
    /// The pool has no address of this family.
    NoFamily,
    /// The targets are healthy.
    Health,
    /// Only drained addresses are healthy.
    Drained,
    /// No address is healthy: `when-all-down` applies.
    AllDown,
}

/// The addresses of an answer, in order.
#[derive(Clone, Copy, Debug)]
pub struct PoolChoice {
    positions: [u8; MAX_POOL_ADDRESSES],
    len: u8,
    is_fallback: bool,
    /// The reason for the choice.
    pub by: ChosenBy,
}

impl PoolChoice {
    fn nothing(by: ChosenBy) -> Self {
        Self { positions: [0; MAX_POOL_ADDRESSES], len: 0, is_fallback: false, by }
    }

    fn push(&mut self, position: u32) {
        if let Some(place) = self.positions.get_mut(usize::from(self.len)) {
            *place = position as u8;
            self.len += 1;
        }
    }

    /// Returns the addresses.
    pub fn addresses<'p>(&'p self, rule: &'p PoolRule) -> impl Iterator<Item = IpAddr> + 'p {
        let chosen = &self.positions[..usize::from(self.len)];
        chosen.iter().filter_map(move |position| {
            let position = usize::from(*position);
            match self.is_fallback {
                true => rule.fallback.get(position).copied(),
                false => rule.members.get(position).map(|member| member.address),
            }
        })
    }

    /// Returns whether there is no address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PoolRule {
    /// Chooses the addresses of an answer. The work is linear in the addresses of the pool. With
    /// weights, it is also linear in the addresses of the answer.
    #[must_use]
    pub fn choose(
        &self,
        masks: PoolMasks,
        family: AddressFamily,
        client: &PoolClient,
    ) -> PoolChoice {
        let of_family = self.positions_of(family);
        if of_family == 0 {
            return PoolChoice::nothing(ChosenBy::NoFamily);
        }
        let healthy = masks.healthy & of_family;
        let drained = masks.drained & of_family;
        let present = masks.present & of_family;
        match (healthy, drained, self.when_all_down) {
            (0, 0, WhenAllDown::All) => self.pick(present, ChosenBy::AllDown, client),
            (0, 0, WhenAllDown::None) => PoolChoice::nothing(ChosenBy::AllDown),
            (0, 0, WhenAllDown::Fallback) => self.fallback_of(family),
            (0, drained, _) => self.pick(drained, ChosenBy::Drained, client),
            (healthy, ..) => self.pick(healthy, ChosenBy::Health, client),
        }
    }

    /// Returns the positions of the members of a family.
    #[must_use]
    pub fn positions_of(&self, family: AddressFamily) -> u64 {
        let members = self.members.iter().take(MAX_POOL_ADDRESSES).enumerate();
        members
            .filter(|(_, member)| family.has(member.address))
            .fold(0, |mask, (position, _)| mask | 1 << position)
    }

    fn fallback_of(&self, family: AddressFamily) -> PoolChoice {
        let mut choice = PoolChoice { is_fallback: true, ..PoolChoice::nothing(ChosenBy::AllDown) };
        for (position, address) in self.fallback.iter().enumerate() {
            if family.has(*address) {
                choice.push(position as u32);
            }
        }
        choice
    }

    fn pick(&self, usable: u64, by: ChosenBy, client: &PoolClient) -> PoolChoice {
        let mut choice = PoolChoice::nothing(by);
        match self.mode {
            PoolMode::All => rotate(usable, 64, client.turn, &mut choice),
            PoolMode::First if usable != 0 => choice.push(usable.trailing_zeros()),
            PoolMode::First => {}
            PoolMode::Rotate(most) => rotate(usable, most.into(), client.turn, &mut choice),
            PoolMode::Weighted(most) => self.draw(usable, most, client.turn, &mut choice),
            PoolMode::Consistent(most) => {
                self.rank(usable, most, client.place.address, &mut choice);
            }
            PoolMode::Nearest(most) => {
                let near = self.near(usable, &client.place);
                rotate(near, most.into(), client.turn, &mut choice);
            }
        }
        choice
    }

    /// Draws addresses by their weights, each at most once.
    fn draw(&self, mut usable: u64, most: u8, turn: u64, choice: &mut PoolChoice) {
        let mut random = mixed(turn);
        for _ in 0..most {
            let total: u64 = self.among(usable).map(|(_, member)| u64::from(member.weight)).sum();
            let drawn = match total {
                // Only standbys, with weight 0, are left: take the first one.
                0 => self.among(usable).next().map(|(position, _)| position),
                total => {
                    let mut left = random % total;
                    self.among(usable).find_map(|(position, member)| {
                        let weight = u64::from(member.weight);
                        let is_drawn = left < weight;
                        left = left.saturating_sub(weight);
                        is_drawn.then_some(position)
                    })
                }
            };
            let Some(position) = drawn else { return };
            // A standby is chosen only if there is no other address.
            if total == 0 && !choice.is_empty() {
                return;
            }
            choice.push(position);
            usable &= !(1 << position);
            random = mixed(random);
        }
    }

    /// Takes the addresses with the highest hash together with the client's address (rendezvous
    /// hashing): if one address fails, only its own clients get another address.
    fn rank(&self, mut usable: u64, most: u8, client: IpAddr, choice: &mut PoolChoice) {
        let client = client_key(client);
        for _ in 0..most {
            let score = |member: &PoolMember| mixed(client ^ mixed(address_key(member.address)));
            let highest = self.among(usable).max_by_key(|(_, member)| score(member));
            let Some((position, _)) = highest else { return };
            choice.push(position);
            usable &= !(1 << position);
        }
    }

    /// Returns the usable positions nearest to a client. A client that is near to no position gets
    /// the positions without places, or all positions if each of them has places.
    fn near(&self, usable: u64, client: &ClientPlace) -> u64 {
        let nearness = |member: &PoolMember| nearness(&member.places, client);
        let nearest = self.among(usable).map(|(_, member)| nearness(member)).max().unwrap_or(0);
        let at = |wanted: &dyn Fn(&PoolMember) -> bool| {
            let found = self.among(usable).filter(|(_, member)| wanted(member));
            found.fold(0, |mask, (position, _)| mask | 1 << position)
        };
        match nearest {
            0 => match at(&|member| member.places.is_empty()) {
                0 => usable,
                general => general,
            },
            nearest => at(&|member| nearness(member) == nearest),
        }
    }

    /// Returns the members at these positions.
    fn among(&self, positions: u64) -> impl Iterator<Item = (u32, &PoolMember)> {
        let members = self.members.iter().take(MAX_POOL_ADDRESSES).zip(0u32..);
        members
            .filter(move |(_, position)| positions & 1 << position != 0)
            .map(|(member, position)| (position, member))
    }
}

/// Takes `most` positions that follow one another, from a place that differs with each turn.
fn rotate(usable: u64, most: u32, turn: u64, choice: &mut PoolChoice) {
    let count = usable.count_ones();
    if count == 0 {
        return;
    }
    let first = (turn % u64::from(count)) as u32;
    let positions = (0..64u32).filter(|position| usable & 1 << position != 0);
    let ahead = positions.clone().skip(first as usize);
    let behind = positions.take(first as usize);
    ahead.chain(behind).take(most as usize).for_each(|position| choice.push(position));
}

/// Returns the part of a client's address that stays the same: hosts change the last half of an
/// IPv6 address (RFC 8981).
fn client_key(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    }
}

fn address_key(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            mixed((bits >> 64) as u64) ^ bits as u64
        }
    }
}

/// Mixes the bits of a number (the finalizer of SplitMix64). The hash has no key, because two
/// servers must choose the same addresses.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
