//! Writes the tree of a signed zone. Several threads each write a range of consecutive nodes.

use std::num::Wrapping;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::thread;

use avocet_dnssec::rrsig::Rrsig;
use avocet_dnssec::signing::{SignatureFields, SigningKey};
use avocet_dnssec::zonemd::ZONEMD;
use avocet_wire::canonical::compare_names;
use avocet_wire::{FoldedName, Rtype, hash};

use super::chain::{Chain, HashedName, Links, NodeKind, append_types, hash_owner, kind_of};
use super::{CDNSKEY, CDS, Head, INCEPTION_SECS, SignFault, SignedZone, Signing, own_sets};
use crate::node_index::NodeIndex;
use crate::tree::{
    Denial, Flags, HostedRecords, HostedSet, HostedZone, MAX_SET_OCTETS, Node, Nsec3Chain,
    RECORD_HEAD, SET_HEAD,
};

/// Number of nodes for which it is worth starting another thread.
const NODES_OF_THREAD: usize = 64;
/// The types of records that the keys in `ZoneSigners::entry` sign.
const ENTRY_TYPES: [Rtype; 3] = [Rtype::DNSKEY, CDS, CDNSKEY];

/// The written tree, and the counts of its signatures.
pub(super) struct Written {
    pub(super) zone: HostedZone,
    pub(super) made: u32,
    kept: u32,
    /// The time in seconds from now until the first signature expires.
    earliest_secs: u32,
}

impl Written {
    /// Adds the number of signatures that replaced others in the tree.
    pub(super) fn add_made(&mut self, made: u32) {
        self.made += made;
        self.kept = self.kept.saturating_sub(made);
    }

    pub(super) fn into_signed(self, signing: &Signing<'_>) -> SignedZone {
        let Self { zone, made, kept, earliest_secs } = self;
        let expires_at_secs = signing.times.now_secs + u64::from(earliest_secs);
        SignedZone { zone, made, kept, expires_at_secs, is_changed: true }
    }
}

/// Writes the tree of a signed zone with these records at the apex.
pub(super) fn write(
    source: &HostedZone,
    chain: &Chain,
    signing: &Signing<'_>,
    head: &Head,
) -> Result<Written, SignFault> {
    let nodes = kept_nodes(source);
    let writer = Writer { source, chain, signing, head };
    let pages = in_threads(&nodes, signing, |nodes| writer.page(nodes))?;
    let hashed = match &chain.links {
        Links::Nsec(_) => Vec::new(),
        Links::Nsec3(names) => in_threads(names, signing, |names| writer.hashed_page(names))?,
    };
    Assembly::of(pages, hashed)?.finish(source)
}

/// Writes the apex of a zone again, with other records in `head`, and signs these records. Returns
/// the number of new signatures.
pub(super) fn rewrite_apex(
    written: &mut Written,
    source: &HostedZone,
    chain: &Chain,
    signing: &Signing<'_>,
    head: &Head,
) -> Result<u32, SignFault> {
    let signing = Signing { last: Some(&written.zone), ..signing.clone() };
    let writer = Writer { source, chain, signing: &signing, head };
    // The apex is the first name in canonical order.
    let page = writer.page(kept_nodes(source).get(..1).unwrap_or_default())?;
    let (made, apex) = (page.made, page.block);
    // Serials, digests and signatures of a key always have the same length, so that no offset
    // changes.
    let len = written.zone.node_at(0).end();
    let place = written.zone.block.get_mut(..len).filter(|_| len == apex.len());
    place.ok_or(SignFault::TooLarge)?.copy_from_slice(&apex);
    Ok(made)
}

/// Returns the offsets of the nodes that the signed zone has from its source. Nodes of NSEC3
/// records, and of names with replaced records only, are excluded.
fn kept_nodes(source: &HostedZone) -> Vec<u32> {
    let mut nodes = Vec::with_capacity(source.names as usize);
    let mut all = source.iter().peekable();
    while let Some(node) = all.next() {
        let mut is_above_next =
            || all.peek().is_some_and(|next| next.name().is_at_or_below(node.name()));
        if node.is_empty() || own_sets(node.sets()).next().is_some() || is_above_next() {
            nodes.push(node.at as u32);
        }
    }
    nodes
}

/// Splits the items among threads. Returns the results in the order of the items.
fn in_threads<T: Sync>(
    items: &[T],
    signing: &Signing<'_>,
    work: impl Fn(&[T]) -> Result<NodePage, SignFault> + Sync,
) -> Result<Vec<NodePage>, SignFault> {
    let threads = signing.threads.clamp(1, items.len() / NODES_OF_THREAD + 1);
    if threads == 1 {
        return Ok(vec![work(items)?]);
    }
    let begin = signing.begin;
    thread::scope(|scope| {
        let parts = items.chunks(items.len().div_ceil(threads)).map(|part| {
            let work = &work;
            let started =
                thread::Builder::new().name("sign".to_owned()).spawn_scoped(scope, move || {
                    begin();
                    work(part)
                });
            (started, part)
        });
        // The collection starts all threads before the first one is waited for.
        let parts: Vec<_> = parts.collect();
        let pages = parts.into_iter().map(|(started, part)| match started {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // If no thread can be started, the calling thread does the work.
            Err(_) => work(part),
        });
        pages.collect()
    })
}

struct Writer<'w> {
    source: &'w HostedZone,
    chain: &'w Chain,
    signing: &'w Signing<'w>,
    head: &'w Head,
}

/// Consecutive nodes that one thread has written.
#[derive(Default)]
struct NodePage {
    block: Vec<u8>,
    /// The offsets of the nodes of names.
    nodes: Vec<u32>,
    /// The offsets of those nodes that have NSEC records.
    nsec: Vec<u32>,
    /// The hashes of NSEC3 records and the offsets of their nodes.
    nsec3: Vec<([u8; 20], u32)>,
    records: u32,
    made: u32,
    kept: u32,
    earliest_secs: Option<u32>,
}

/// An RRset that will be written, signed or not.
struct OutSet<'z> {
    rtype: Rtype,
    count: u16,
    records: std::borrow::Cow<'z, [u8]>,
    is_signed: bool,
}

impl Writer<'_> {
    fn page(&self, nodes: &[u32]) -> Result<NodePage, SignFault> {
        let mut page = NodePage::default();
        let links = match &self.chain.links {
            Links::Nsec(links) => &links[..],
            Links::Nsec3(_) => &[],
        };
        let mut link = nodes.first().map_or(0, |first| links.partition_point(|at| at < first));
        for &at in nodes {
            let node = self.source.node_at(at);
            let mut sets = self.sets(node);
            let is_linked = links.get(link) == Some(&at);
            if is_linked {
                link += 1;
                let next = links.get(link).or(links.first()).map_or(at, |next| *next);
                sets.push(self.nsec(node, self.source.node_at(next).name()));
            }
            sets.sort_by_key(|set| set.rtype);
            page.nodes.push(page.block.len() as u32);
            if is_linked {
                page.nsec.push(page.block.len() as u32);
            }
            let last = self.signing.last.and_then(|last| last.node(node.name().wire()));
            self.put(&mut page, (node.name(), node.flags()), &sets, last)?;
        }
        Ok(page)
    }

    fn hashed_page(&self, names: &[HashedName]) -> Result<NodePage, SignFault> {
        let mut page = NodePage::default();
        for name in names {
            let owner = hash_owner(&name.hash, self.source.apex());
            let owner = FoldedName::new(&owner).ok_or(SignFault::TooManyTypes)?;
            let mut records = Vec::new();
            append_record(Rtype::NSEC3, self.chain.ttl_secs, &name.rdata, &mut records);
            let set =
                OutSet { rtype: Rtype::NSEC3, count: 1, records: records.into(), is_signed: true };
            page.nsec3.push((name.hash, page.block.len() as u32));
            let last = self.signing.last.and_then(|last| last.nsec3_node(&name.hash));
            self.put(&mut page, (owner, Flags(0)), &[set], last)?;
        }
        Ok(page)
    }

    /// Returns the RRsets of a node in the signed zone, without its NSEC record.
    fn sets<'z>(&'z self, node: Node<'z>) -> Vec<OutSet<'z>> {
        let kind = kind_of(node);
        let is_apex = node.name().len() == self.source.apex().len();
        let is_signed = |rtype| match kind {
            // Instead of an ALIAS record, the addresses of its target are signed, separately for
            // each answer.
            NodeKind::Own => rtype != Rtype::ALIAS,
            NodeKind::SecureCut => rtype == Rtype::DS,
            NodeKind::InsecureCut | NodeKind::Outside => false,
        };
        let own = own_sets(node.sets()).map(|set| OutSet {
            rtype: set.rtype,
            count: set.count,
            records: set.records.into(),
            is_signed: is_signed(set.rtype),
        });
        let mut sets: Vec<_> = own.collect();
        if is_apex {
            self.apex_sets(node, &mut sets);
        }
        sets
    }

    /// Replaces the SOA record of the apex, and adds the records about keys and proofs.
    fn apex_sets(&self, node: Node<'_>, sets: &mut Vec<OutSet<'_>>) {
        for soa in sets.iter_mut().filter(|set| set.rtype == Rtype::SOA) {
            let mut records = soa.records.to_vec();
            let serial =
                records.len().checked_sub(20).and_then(|at| records[at..].first_chunk_mut());
            if let Some(serial) = serial {
                *serial = self.head.serial.to_be_bytes();
            }
            soa.records = records.into();
        }
        let signers = self.signing.signers;
        let others = node.set(Rtype::DNSKEY).map_or_else(HostedRecords::default, |set| set.iter());
        let mut dnskeys: Vec<Vec<u8>> = others.map(|record| record.rdata.to_vec()).collect();
        dnskeys.extend(signers.published.iter().map(|key| key.dnskey().to_vec()));
        sets.retain(|set| !matches!(set.rtype, Rtype::DNSKEY | ZONEMD));
        let apex = self.source.apex();
        let parent = &signers.parent;
        let cds = parent.iter().map(|key| key.ds(apex)).collect();
        let cdnskey = parent.iter().map(|key| key.dnskey().to_vec()).collect();
        let parameters = self.chain.parameters().iter().map(|data| data.to_vec()).collect();
        for (rtype, mut data) in [
            (Rtype::DNSKEY, dnskeys),
            (CDS, cds),
            (CDNSKEY, cdnskey),
            (Rtype::NSEC3PARAM, parameters),
        ] {
            data.sort_unstable();
            data.dedup();
            if data.is_empty() {
                continue;
            }
            // Resolvers do not ask for NSEC3PARAM records, so they need no TTL.
            let is_parameters = rtype == Rtype::NSEC3PARAM;
            let ttl_secs = if is_parameters { 0 } else { self.signing.times.dnskey_ttl_secs };
            let mut records = Vec::new();
            for data in &data {
                append_record(rtype, ttl_secs, data, &mut records);
            }
            let count = data.len() as u16;
            sets.push(OutSet { rtype, count, records: records.into(), is_signed: true });
        }
        if let Some(zonemd) = &self.head.zonemd {
            // The ZONEMD record has the TTL of the SOA record (RFC 8976 §2).
            let soa = node.set(Rtype::SOA).and_then(|set| set.iter().next());
            let mut records = Vec::new();
            append_record(ZONEMD, soa.map_or(0, |soa| soa.ttl_secs), zonemd, &mut records);
            sets.push(OutSet { rtype: ZONEMD, count: 1, records: records.into(), is_signed: true });
        }
    }

    fn nsec(&self, node: Node<'_>, next: FoldedName<'_>) -> OutSet<'static> {
        let mut rdata = next.wire().to_vec();
        append_types(node, self.source.apex(), self.signing, &mut rdata);
        let mut records = Vec::new();
        append_record(Rtype::NSEC, self.chain.ttl_secs, &rdata, &mut records);
        OutSet { rtype: Rtype::NSEC, count: 1, records: records.into(), is_signed: true }
    }

    /// Writes a node with its RRsets and their signatures.
    fn put(
        &self,
        page: &mut NodePage,
        (owner, flags): (FoldedName<'_>, Flags),
        sets: &[OutSet<'_>],
        last: Option<Node<'_>>,
    ) -> Result<(), SignFault> {
        page.block.extend_from_slice(&[flags.0, owner.len() as u8]);
        page.block.extend_from_slice(owner.wire());
        let count = u8::try_from(sets.len()).map_err(|_| SignFault::TooManyTypes)?;
        page.block.push(count);
        let len_at = page.block.len();
        page.block.extend_from_slice(&[0; 4]);
        for set in sets {
            let last = last.and_then(|node| node.set(set.rtype));
            self.put_set(page, owner, set, last)?;
        }
        let len = (page.block.len() - len_at - 4) as u32;
        page.block[len_at..len_at + 4].copy_from_slice(&len.to_be_bytes());
        if u32::try_from(page.block.len()).is_err() {
            return Err(SignFault::TooLarge);
        }
        Ok(())
    }

    fn put_set(
        &self,
        page: &mut NodePage,
        owner: FoldedName<'_>,
        set: &OutSet<'_>,
        last: Option<HostedSet<'_>>,
    ) -> Result<(), SignFault> {
        let start = page.block.len();
        page.block.extend_from_slice(&[0; SET_HEAD]);
        page.block.extend_from_slice(&set.records);
        let signatures_at = page.block.len();
        let mut signatures = 0_u16;
        if set.is_signed {
            let signers = self.signing.signers;
            let is_entry =
                ENTRY_TYPES.contains(&set.rtype) && owner.len() == self.source.apex().len();
            let keys = if is_entry { &signers.entry } else { &signers.zone };
            let last = last.filter(|last| last.records == &*set.records);
            for key in keys {
                self.put_signature(page, owner, set, (key, last))?;
                signatures += 1;
            }
        }
        if set.records.len() + page.block.len() - signatures_at > MAX_SET_OCTETS {
            return Err(SignFault::TooManyTypes);
        }
        page.records += u32::from(set.count) + u32::from(signatures);
        let numbers = [
            usize::from(set.rtype.0),
            usize::from(set.count),
            set.records.len(),
            usize::from(signatures),
            page.block.len() - signatures_at,
        ];
        for (at, number) in numbers.into_iter().enumerate() {
            let number = u16::try_from(number).map_err(|_| SignFault::TooManyTypes)?;
            page.block[start + 2 * at..start + 2 * at + 2].copy_from_slice(&number.to_be_bytes());
        }
        Ok(())
    }

    /// Writes the signature of one key: the one of the last version if it can still be used, or a
    /// new one.
    fn put_signature(
        &self,
        page: &mut NodePage,
        owner: FoldedName<'_>,
        set: &OutSet<'_>,
        (key, last): (&SigningKey, Option<HostedSet<'_>>),
    ) -> Result<(), SignFault> {
        let Some(ttl_secs) = HostedRecords(&set.records).next().map(|record| record.ttl_secs)
        else {
            return Ok(());
        };
        let times = &self.signing.times;
        let is_good = |rrsig: &Rrsig<'_>| {
            let left = rrsig.expiration.wrapping_sub(times.now()).cast_signed();
            let age = times.now().wrapping_sub(rrsig.inception).cast_signed();
            (rrsig.algorithm, rrsig.key_tag) == (key.algorithm(), key.tag())
                && rrsig.original_ttl_secs == ttl_secs
                && age >= 0
                && i64::from(left) > i64::from(times.needed_secs())
                && i64::from(left) <= i64::from(times.validity_secs)
        };
        let mut known = last.into_iter().flat_map(|last| last.signatures());
        let kept = known.find(|record| Rrsig::read(record.rdata).is_some_and(|one| is_good(&one)));
        if let Some(kept) = kept {
            page.kept += 1;
            if let Some(rrsig) = Rrsig::read(kept.rdata) {
                page.note(rrsig.expiration.wrapping_sub(times.now()));
            }
            append_record(Rtype::RRSIG, ttl_secs, kept.rdata, &mut page.block);
            return Ok(());
        }
        let valid_secs = times.validity_secs - self.jitter_secs(owner, set.rtype);
        let fields = SignatureFields {
            owner,
            rtype: set.rtype,
            ttl_secs,
            inception: times.now().wrapping_sub(INCEPTION_SECS),
            expiration: times.now().wrapping_add(valid_secs),
            zone: self.source.apex(),
        };
        let rdata = key.sign(&fields, HostedRecords(&set.records).map(|record| record.rdata))?;
        append_record(Rtype::RRSIG, ttl_secs, &rdata, &mut page.block);
        page.made += 1;
        page.note(valid_secs);
        Ok(())
    }

    /// Returns the number of seconds by which the validity of a signature is shortened. It is zero
    /// at the apex, whose signatures are made together anyway.
    fn jitter_secs(&self, owner: FoldedName<'_>, rtype: Rtype) -> u32 {
        let most = self.signing.times.jitter_secs();
        if most == 0 || owner.len() == self.source.apex().len() {
            return 0;
        }
        let mixed = Wrapping(hash::without_secret(owner.wire()) ^ self.signing.seed)
            + Wrapping(u64::from(rtype.0));
        let mixed = mixed * Wrapping(0x9e37_79b9_7f4a_7c15);
        ((mixed.0 >> 32) % u64::from(most)) as u32
    }
}

impl NodePage {
    fn note(&mut self, secs: u32) {
        self.earliest_secs = Some(self.earliest_secs.map_or(secs, |known| known.min(secs)));
    }
}

fn append_record(rtype: Rtype, ttl_secs: u32, rdata: &[u8], out: &mut Vec<u8>) {
    let [high, low] = rtype.0.to_be_bytes();
    let [a, b, c, d] = ttl_secs.to_be_bytes();
    // A length that does not fit is detected when the RRset is written.
    let [len_high, len_low] = (rdata.len() as u16).to_be_bytes();
    let head: [u8; RECORD_HEAD] = [0xc0, 12, high, low, 0, 1, a, b, c, d, len_high, len_low];
    out.extend_from_slice(&head);
    out.extend_from_slice(rdata);
}

/// The tree while the nodes of the threads are assembled.
#[derive(Default)]
struct Assembly {
    all: NodePage,
}

impl Assembly {
    /// Assembles the tree. The nodes of NSEC3 records are inserted between those of names, in
    /// canonical order.
    fn of(pages: Vec<NodePage>, hashed: Vec<NodePage>) -> Result<Self, SignFault> {
        let mut assembly = Self::default();
        let octets = pages.iter().chain(&hashed).map(|page| page.block.len()).sum();
        if u32::try_from(octets).is_err() {
            return Err(SignFault::TooLarge);
        }
        assembly.all.block.reserve_exact(octets);
        let mut between = hashed
            .iter()
            .flat_map(|page| page.nsec3.iter().map(|(hash, at)| (*hash, node_of(page, *at))))
            .peekable();
        for page in pages {
            assembly.count(&page);
            let mut nsec = page.nsec.iter().peekable();
            for &at in &page.nodes {
                let node = node_of(&page, at);
                while let Some((hash, hashed)) = between.next_if(|(_, hashed)| {
                    compare_names(hashed.name().wire(), node.name().wire()).is_lt()
                }) {
                    assembly.put_hashed(hash, hashed);
                }
                let place = assembly.all.block.len() as u32;
                assembly.all.nodes.push(place);
                if nsec.next_if_eq(&&at).is_some() {
                    assembly.all.nsec.push(place);
                }
                assembly.copy(node);
            }
        }
        between.for_each(|(hash, hashed)| assembly.put_hashed(hash, hashed));
        hashed.iter().for_each(|page| assembly.count(page));
        Ok(assembly)
    }

    fn count(&mut self, page: &NodePage) {
        self.all.made += page.made;
        self.all.kept += page.kept;
        self.all.records += page.records;
        if let Some(secs) = page.earliest_secs {
            self.all.note(secs);
        }
    }

    fn put_hashed(&mut self, hash: [u8; 20], node: Node<'_>) {
        self.all.nsec3.push((hash, self.all.block.len() as u32));
        self.copy(node);
    }

    fn copy(&mut self, node: Node<'_>) {
        self.all.block.extend_from_slice(node.block.get(node.at..node.end()).unwrap_or_default());
    }

    fn finish(self, source: &HostedZone) -> Result<Written, SignFault> {
        let NodePage { block, nodes, nsec, nsec3, records, made, kept, earliest_secs } = self.all;
        let index = NodeIndex::of(&block, &nodes);
        let denial = if nsec3.is_empty() {
            Denial::Nsec(nsec.into())
        } else {
            let hashes = nsec3.into();
            Denial::Nsec3(Box::new(Nsec3Chain { iterations: 0, salt: Box::default(), hashes }))
        };
        let zone = HostedZone {
            apex: source.apex().to_buf(),
            block: block.into_boxed_slice(),
            index,
            denial,
            records,
            names: nodes.len() as u32,
            digest: OnceLock::new(),
            changes: Vec::new(),
            withheld_from: OnceLock::new(),
            online: OnceLock::new(),
            holds_transfers: AtomicBool::new(false),
        };
        Ok(Written { zone, made, kept, earliest_secs: earliest_secs.ok_or(SignFault::NoKey)? })
    }
}

fn node_of(page: &NodePage, at: u32) -> Node<'_> {
    Node { block: &page.block, at: at as usize }
}

impl HostedZone {
    /// Returns the node of the NSEC3 record with this hash.
    pub(crate) fn nsec3_node(&self, hash: &[u8; 20]) -> Option<Node<'_>> {
        let Denial::Nsec3(chain) = &self.denial else { return None };
        let place = chain.hashes.binary_search_by(|(other, _)| other.cmp(hash)).ok()?;
        Some(self.node_at(chain.hashes[place].1))
    }
}
