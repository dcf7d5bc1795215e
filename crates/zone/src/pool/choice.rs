//! The choice of the addresses of a pool for one answer. No function of this module allocates.

use std::net::IpAddr;

use super::health::PoolMasks;
use super::place::{ClientPlace, MemberPlace, nearness};

/// Maximum number of addresses of a pool. A set of them fits into a word of 64 bits.
pub const MAX_POOL_ADDRESSES: usize = 64;

/// An address of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolMember {
    /// The address in answers.
    pub address: IpAddr,
    /// The share of this address in [`PoolMode::Weighted`], relative to the other weights. An
    /// address with weight 0 is chosen only if no other is available.
    pub weight: u32,
    /// The clients to which the address is near, for [`PoolMode::Nearest`].
    pub places: Vec<MemberPlace>,
}

/// The rule by which healthy addresses are chosen for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolMode {
    /// All healthy addresses.
    All,
    /// The first healthy address in the order of the configuration.
    First,
    /// Addresses drawn at random by their weights, up to this number.
    Weighted(u8),
    /// Up to this number of addresses. Each address is chosen equally often.
    Rotate(u8),
    /// Up to this number of addresses. A client gets the same ones as long as they are healthy.
    Consistent(u8),
    /// Up to this number of addresses near the client.
    Nearest(u8),
}

/// The content of an answer if no address is healthy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenAllDown {
    /// All addresses, except those that an operator has disabled.
    All,
    /// No address.
    None,
    /// The addresses of [`PoolRule::fallback`].
    Fallback,
}

/// The family of the addresses of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressFamily {
    /// IPv4 addresses, as A records.
    V4,
    /// IPv6 addresses, as AAAA records.
    V6,
}

impl AddressFamily {
    fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }
}

/// The properties of a query by which addresses are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolClient {
    /// The location of the client.
    pub place: ClientPlace,
    /// A number that differs for each query.
    pub turn: u64,
}

/// The addresses of a pool, and the rule by which they are chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRule {
    /// The addresses, at most [`MAX_POOL_ADDRESSES`].
    pub members: Vec<PoolMember>,
    /// The rule that chooses among the healthy addresses.
    pub mode: PoolMode,
    /// The content of an answer if no address is healthy.
    pub when_all_down: WhenAllDown,
    /// The addresses for [`WhenAllDown::Fallback`].
    pub fallback: Vec<IpAddr>,
}

/// The reason for the choice of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChosenBy {
    /// The pool has no address of the wanted family, and the addresses of the other family are
    /// usable, or `fallback` has none of the wanted family either.
    NoFamily,
    /// The addresses are healthy and not drained.
    Health,
    /// Only addresses that an operator drains are healthy.
    Drained,
    /// No address is healthy, so `when_all_down` applies.
    AllDown,
}

/// The addresses that were chosen for an answer, in order.
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
    /// Chooses the addresses of an answer. The time is linear in the number of addresses of the
    /// pool; with weights, it is also linear in the number of chosen addresses.
    #[must_use]
    pub fn choose(
        &self,
        masks: PoolMasks,
        family: AddressFamily,
        client: &PoolClient,
    ) -> PoolChoice {
        let of_family = self.positions_of(family);
        if of_family == 0 {
            // Clients that prefer this family must not get `fallback` while the pool works.
            let is_down = masks.healthy == 0 && masks.drained == 0;
            let is_used = is_down && self.when_all_down == WhenAllDown::Fallback;
            let fallback = Some(self.fallback_of(family)).filter(|one| is_used && !one.is_empty());
            return fallback.unwrap_or_else(|| PoolChoice::nothing(ChosenBy::NoFamily));
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

    /// Returns the positions of the members with an address of this family, as a bit set.
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

    /// Chooses up to `most` addresses at random by their weights, each at most once.
    fn draw(&self, mut usable: u64, most: u8, turn: u64, choice: &mut PoolChoice) {
        let mut random = mixed(turn);
        for _ in 0..most {
            let total: u64 = self.among(usable).map(|(_, member)| u64::from(member.weight)).sum();
            let drawn = match total {
                // Only addresses with weight 0 are left, so the first one is taken.
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
            // An address with weight 0 is chosen only if there is no other.
            if total == 0 && !choice.is_empty() {
                return;
            }
            choice.push(position);
            usable &= !(1 << position);
            random = mixed(random);
        }
    }

    /// Chooses the addresses with the highest hash of address and client (rendezvous hashing). If
    /// an address fails, only the clients that had it get another one.
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

    /// Returns the usable positions that are nearest to a client. If none is near, returns the
    /// positions of the members without places, or all positions if every member has places.
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

    /// Returns the members at these positions, each with its position.
    fn among(&self, positions: u64) -> impl Iterator<Item = (u32, &PoolMember)> {
        let members = self.members.iter().take(MAX_POOL_ADDRESSES).zip(0u32..);
        members
            .filter(move |(_, position)| positions & 1 << position != 0)
            .map(|(member, position)| (position, member))
    }
}

/// Chooses `most` consecutive positions. `turn` determines the first one.
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

/// Returns the part of a client's address that stays the same. Hosts change the last half of their
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

/// Mixes the bits of a number (the finalizer of SplitMix64). The function has no secret key,
/// because two servers must choose the same addresses.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
