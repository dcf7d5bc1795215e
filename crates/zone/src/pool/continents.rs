//! The continents of countries, by their codes in ISO 3166-1.

/// The code of each continent, and the countries in it.
pub const CONTINENTS: [([u8; 2], &str); 7] = [
    (
        *b"AF",
        "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG \
         ML MR MU MW MZ NA NE NG RE RW SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA ZM ZW",
    ),
    (*b"AN", "AQ BV GS HM TF"),
    (
        *b"AS",
        "AE AF AM AZ BD BH BN BT CC CN CX GE HK ID IL IN IO IQ IR JO JP KG KH KP KR KW KZ LA LB LK \
         MM MN MO MV MY NP OM PH PK PS QA SA SG SY TH TJ TL TM TR TW UZ VN YE",
    ),
    (
        *b"EU",
        "AD AL AT AX BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT JE LI \
         LT LU LV MC MD ME MK MT NL NO PL PT RO RS RU SE SI SJ SK SM UA VA XK",
    ),
    (
        *b"NA",
        "AG AI AW BB BL BM BQ BS BZ CA CR CU CW DM DO GD GL GP GT HN HT JM KN KY LC MF MQ MS MX NI \
         PA PM PR SV SX TC TT US VC VG VI",
    ),
    (*b"OC", "AS AU CK FJ FM GU KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV UM VU WF WS"),
    (*b"SA", "AR BO BR CL CO EC FK GF GY PE PY SR UY VE"),
];

/// Returns the continent of a country, or `None` for an unknown country.
#[must_use]
pub fn continent_of(country: [u8; 2]) -> Option<[u8; 2]> {
    let has = |countries: &str| countries.as_bytes().chunks(3).any(|code| code[..2] == country);
    CONTINENTS.iter().find(|(_, countries)| has(countries)).map(|(continent, _)| *continent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_country_is_on_one_continent() {
        let codes: Vec<_> =
            CONTINENTS.iter().flat_map(|(_, countries)| countries.split(' ')).collect();
        let mut different = codes.clone();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() == codes.len() && codes.iter().all(|code| code.len() == 2));
        assert_eq!(codes.len(), 250);
        for (country, expected) in [(b"DE", b"EU"), (b"JP", b"AS"), (b"ZW", b"AF"), (b"AR", b"SA")]
        {
            assert_eq!(continent_of(*country), Some(*expected));
        }
        assert_eq!(continent_of(*b"ZZ"), None);
    }
}
