//! Tables of machines: one row for each machine, grouped by the function that it serves.
//!
//! ```text
//! #Fields: MachineFunction,StaticIP,MachineName
//! ; comment
//! web,192.0.2.10,web01
//! web,192.0.2.11,web02
//! ```
//!
//! The name of a function has the addresses of all its machines, and the name of a machine has its
//! own address. The columns may be in another order, and there may be other columns; a field with a
//! comma is in double quotes.

use std::net::IpAddr;

use avocet_zone::{ProvidedReading, SourceProblem, ZoneProvider};

use super::{HostNames, is_host_name};

/// The line with the names of the columns.
const FIELDS: &str = "#fields:";

/// A table of machines.
pub(super) struct MachineTable {
    pub(super) hosts: HostNames,
}

/// The indexes of the columns.
struct Columns {
    function: usize,
    address: usize,
    machine: usize,
    count: usize,
}

impl Columns {
    fn of(names: &[String]) -> Result<Self, SourceProblem> {
        let place = |column: &'static str| {
            let found = names.iter().position(|name| name.eq_ignore_ascii_case(column));
            found.ok_or(SourceProblem::NoColumn(column))
        };
        let [function, address, machine] =
            [place("MachineFunction")?, place("StaticIP")?, place("MachineName")?];
        Ok(Self { function, address, machine, count: names.len() })
    }
}

impl ZoneProvider for MachineTable {
    fn read(&self, source: &[u8], reading: &mut ProvidedReading<'_>) {
        let Some(text) = reading.text(source) else { return };
        let mut columns = None;
        // An editor may put a byte order mark before the text.
        let text = text.trim_start_matches('\u{feff}');
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            let is_head = line.get(..FIELDS.len()).is_some_and(|s| s.eq_ignore_ascii_case(FIELDS));
            if is_head {
                match fields(&line[FIELDS.len()..]).and_then(|names| Columns::of(&names)) {
                    Ok(found) => columns = Some(found),
                    Err(problem) => return reading.fault(number, problem),
                }
            } else if !(line.is_empty() || line.starts_with(['#', ';'])) {
                let Some(columns) = &columns else {
                    return reading.fault(number, SourceProblem::NoFields);
                };
                if let Err(problem) = self.row(number, line, columns, reading) {
                    reading.fault(number, problem);
                }
            }
        }
        if columns.is_none() {
            reading.fault(0, SourceProblem::NoFields);
        }
    }
}

impl MachineTable {
    fn row(
        &self,
        number: u32,
        line: &str,
        columns: &Columns,
        reading: &mut ProvidedReading<'_>,
    ) -> Result<(), SourceProblem> {
        let row = fields(line)?;
        let (found, expected) = (row.len(), columns.count);
        let few = || SourceProblem::Fields { expected, found };
        let field = |place: usize| row.get(place).map(String::as_str).ok_or_else(few);
        let address = field(columns.address)?;
        let [function, machine] = [field(columns.function)?, field(columns.machine)?];
        let ip: IpAddr = address.parse().map_err(|_| SourceProblem::Address(address.to_owned()))?;
        if function.is_empty() && machine.is_empty() {
            return Err(SourceProblem::Nameless);
        }
        let bad = [function, machine].into_iter().find(|it| !it.is_empty() && !is_host_name(it));
        if let Some(name) = bad {
            return Err(SourceProblem::HostName(name.to_owned()));
        }
        // An address has only one reverse name: the name of the machine.
        let is_reverse = self.hosts.domain.is_some() && !machine.is_empty();
        let function =
            if is_reverse || function.eq_ignore_ascii_case(machine) { "" } else { function };
        for name in [function, machine] {
            if !name.is_empty() {
                self.hosts.add(number, name, ip, reading);
            }
        }
        Ok(())
    }
}

/// Splits a line at its commas that are not quoted. A quote in quotes is written twice (RFC 4180).
fn fields(line: &str) -> Result<Vec<String>, SourceProblem> {
    let mut all = Vec::new();
    let mut field = String::new();
    let mut is_quoted = false;
    let mut octets = line.chars().peekable();
    while let Some(octet) = octets.next() {
        match octet {
            '"' if is_quoted && octets.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => all.push(std::mem::take(&mut field).trim().to_owned()),
            _ => field.push(octet),
        }
    }
    all.push(field.trim().to_owned());
    if is_quoted { Err(SourceProblem::OpenQuote) } else { Ok(all) }
}
