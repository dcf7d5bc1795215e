//! Tests that each documented option of each product either changes the result or is noted.

use super::*;

/// Imports a source with each option and without it, and compares the results.
#[track_caller]
fn check(origin: Origin, path: &str, base: &str, options: &[(&str, &str)]) {
    // A key that identifies a document of the product.
    let known = match origin {
        Origin::Adguard => "dns:",
        Origin::Blocky => "customDNS:",
        _ => "",
    };
    let import = |text: &str| {
        let text =
            if text.contains(known) { text.to_owned() } else { format!("{known} ~\n{text}") };
        let imported =
            run_text(origin, path, &text).unwrap_or_else(|error| panic!("{text}: {error}"));
        (imported.config + &format!("{:?}", imported.files), imported.notes)
    };
    let (without, before) = import(base);
    let mut lost = Vec::new();
    for (option, text) in options {
        let (config, notes) = import(text);
        let is_named =
            notes.iter().filter(|note| !before.contains(note)).any(|note| note.contains(option));
        if config == without && !is_named {
            lost.push(format!("{option}: {notes:?}"));
        }
    }
    assert_eq!(lost, [""; 0], "neither carried over nor named");
}

/// Returns options of a YAML table as `key: value`, one per line.
fn of_yaml(table: &str, options: &str) -> Vec<(String, String)> {
    let option = |line: &str| {
        let (key, _) = line.trim().split_once(':')?;
        let text = if table.is_empty() {
            line.trim().to_owned()
        } else {
            format!("{table}: {{{}}}", line.trim())
        };
        Some((key.to_owned(), text))
    };
    options.lines().filter_map(option).collect()
}

fn borrowed(options: &[(String, String)]) -> Vec<(&str, &str)> {
    options.iter().map(|(option, text)| (option.as_str(), text.as_str())).collect()
}

/// Options of AdGuardHome.yaml by table.
const ADGUARD: &str = "http: {address: '0.0.0.0:3000'}
    users: [{name: a, password: b}]
    auth_attempts: 5
    block_auth_min: 15
    http_proxy: 'http://192.0.2.1'
    language: de
    theme: dark
    debug_pprof: true
    web_session_ttl: 720
    tls: {enabled: true, server_name: x.example}
    querylog: {enabled: true, interval: 24h}
    statistics: {enabled: true, interval: 24h}
    filters: [{enabled: true, url: 'https://lists.example/a', name: a}]
    whitelist_filters: [{enabled: true, url: 'https://lists.example/b', name: b}]
    user_rules: ['||x.example^']
    dhcp: {enabled: true}
    log: {enabled: true, file: x}
    os: {user: nobody}
    schema_version: 29
    unheard_of: 1";

const ADGUARD_DNS: &str = "bind_hosts: [192.0.2.5]
    port: 5353
    anonymize_client_ip: true
    ratelimit: 20
    ratelimit_subnet_len_ipv4: 24
    ratelimit_subnet_len_ipv6: 56
    refuse_any: false
    upstream_dns: [192.0.2.1]
    upstream_dns_file: /gone
    bootstrap_dns: [192.0.2.1]
    fallback_dns: [192.0.2.1]
    upstream_mode: fastest_addr
    fastest_timeout: 1s
    allowed_clients: [192.0.2.0/24]
    disallowed_clients: [192.0.2.7]
    blocked_hosts: ['||evil.example^']
    trusted_proxies: [192.0.2.0/24]
    cache_enabled: false
    cache_size: 8388608
    cache_ttl_min: 60
    cache_ttl_max: 600
    cache_optimistic: true
    cache_optimistic_answer_ttl: 30s
    cache_optimistic_max_age: 12h
    bogus_nxdomain: [192.0.2.9]
    aaaa_disabled: true
    enable_dnssec: true
    edns_client_subnet: {enabled: true}
    max_goroutines: 300
    handle_ddr: false
    ipset: [x.example/set]
    ipset_file: /x
    bootstrap_prefer_ipv6: true
    upstream_timeout: 10s
    private_networks: [192.0.2.0/24]
    local_ptr_upstreams: [192.0.2.1]
    use_dns64: true
    dns64_prefixes: ['64:ff9b::/96']
    serve_http3: true
    use_http3_upstreams: true
    serve_plain_dns: false
    hostsfile_enabled: false
    pending_requests: {enabled: true}";

const ADGUARD_FILTERING: &str = "blocking_mode: nxdomain
    blocked_services: {ids: [tiktok]}
    protection_disabled_until: 2026-01-01
    safe_search: {enabled: true}
    parental_block_host: x.example
    safebrowsing_block_host: x.example
    rewrites: [{domain: a.lan, answer: 192.0.2.1}]
    safe_fs_patterns: [/x]
    safebrowsing_cache_size: 100
    safesearch_cache_size: 100
    parental_cache_size: 100
    cache_time: 30
    filters_update_interval: 0
    blocked_response_ttl: 77
    filtering_enabled: false
    rewrites_enabled: false
    parental_enabled: true
    safebrowsing_enabled: true
    protection_enabled: false";

const ADGUARD_CLIENT: &str = "upstreams: [192.0.2.1]
    use_global_settings: false
    safebrowsing_enabled: true
    parental_enabled: true
    ignore_querylog: true
    ignore_statistics: true
    upstreams_cache_enabled: true
    upstreams_cache_size: 9
    tags: [user_child]
    uid: x
    unheard_of: 2";

#[test]
fn of_adguard_home() {
    let mut options = of_yaml("", ADGUARD);
    options.extend(of_yaml("dns", ADGUARD_DNS));
    options.extend(of_yaml("filtering", ADGUARD_FILTERING));
    options
        .push(("runtime_sources".to_owned(), "clients: {runtime_sources: {arp: true}}".to_owned()));
    check(Origin::Adguard, "a.yaml", "", &borrowed(&options));
    let persistent = |more: &str| {
        format!(
            "clients: {{persistent: [{{name: a, ids: [192.0.2.3], use_global_settings: true, use_global_blocked_services: true{more}}}]}}"
        )
    };
    let own: Vec<(String, String)> = of_yaml("", ADGUARD_CLIENT)
        .into_iter()
        .map(|(option, text)| match option.as_str() {
            "use_global_settings" => {
                (option, persistent("").replace("use_global_settings: true", &text))
            }
            _ => (option, persistent(&format!(", {text}"))),
        })
        .collect();
    check(Origin::Adguard, "a.yaml", &persistent(""), &borrowed(&own));
    let with_limit = "dns: {ratelimit: 5}";
    let exempt = [("ratelimit_whitelist", "dns: {ratelimit: 5, ratelimit_whitelist: [192.0.2.1]}")];
    check(Origin::Adguard, "a.yaml", with_limit, &exempt);
    let custom = "filtering: {blocking_mode: custom_ip, blocking_ipv4: 192.0.2.1}";
    let address = [(
        "blocking_ipv6",
        "filtering: {blocking_mode: custom_ip, blocking_ipv4: 192.0.2.1, blocking_ipv6: '2001:db8::1'}",
    )];
    check(Origin::Adguard, "a.yaml", custom, &address);
    let private = "dns: {local_ptr_upstreams: [192.0.2.1]}";
    let off = [(
        "use_private_ptr_resolvers",
        "dns: {local_ptr_upstreams: [192.0.2.1], use_private_ptr_resolvers: false}",
    )];
    check(Origin::Adguard, "a.yaml", private, &off);
}

/// Options of blocky's configuration by table.
const BLOCKY: &[(&str, &str)] = &[
    (
        "",
        "upstreams: {groups: {default: [192.0.2.1]}}
            bootstrapDns: ['192.0.2.1']
            connectIPVersion: v4
            certFile: x
            keyFile: x
            minTlsServeVersion: 1.3
            redis: {address: x}
            dnssec: {validate: true}
            ecs: {forward: true}
            ede: {enable: true}
            specialUseDomains: {enable: true}
            prometheus: {enable: true}
            queryLog: {type: csv}
            dns64: {enable: true}
            rateLimit: {rate: 5}
            unheard_of: 1",
    ),
    ("upstreams", "init: {strategy: fast}\ntimeout: 3s\nuserAgent: x\nunheard_of: 1"),
    ("ports", "dns: 5353\nhttp: 4000\nhttps: 443\ntls: 853\ndohPath: /x"),
    ("log", "level: debug\nformat: json\ntimestamp: false\nprivacy: true"),
    ("fqdnOnly", "enable: true\nunheard_of: 1"),
    ("filtering", "queryTypes: [AAAA, NOPE]\nunheard_of: 1"),
    (
        "customDNS",
        "mapping: {a.lan: 192.0.2.1}\nzone: x\nrewrite: {a: b}\nfilterUnmappedTypes: false\nunheard_of: 1",
    ),
    (
        "conditional",
        "mapping: {lan: 192.0.2.1}\nrewrite: {a: b}\nfallbackUpstream: true\nunheard_of: 1",
    ),
    ("clientLookup", "upstream: 192.0.2.1\nsingleNameOrder: [1, 2]\nclients: {tv: [192.0.2.8]}"),
    (
        "blocking",
        "denylists: {a: ['https://lists.example/a']}
            allowlists: {a: ['https://lists.example/b']}
            blackLists: {a: ['https://lists.example/a']}
            whiteLists: {a: ['https://lists.example/b']}
            clientGroupsBlock: {tv: [a]}
            blockType: nxDomain
            blockTTL: 9s
            unheard_of: 1",
    ),
    (
        "caching",
        "minTime: 5m
            maxTime: 30m
            maxItemsCount: 9
            prefetching: true
            prefetchExpires: 2h
            prefetchThreshold: 5
            prefetchMaxItemsCount: 7
            cacheTimeNegative: 9m
            exclude: [/x/]",
    ),
    (
        "hostsFile",
        "sources: ['https://lists.example/hosts']\nloading: {refreshPeriod: 1h}\nunheard_of: 1",
    ),
];

#[test]
fn of_blocky() {
    let mut options: Vec<(String, String)> =
        BLOCKY.iter().flat_map(|(table, options)| of_yaml(table, options)).collect();
    for (option, text) in &mut options {
        if text.starts_with("log: ") {
            *option = "log".to_owned();
        }
    }
    let loading = "downloads: {timeout: 9s}\nconcurrency: 9\nstrategy: fast\nmaxErrorsPerSource: 9\nunheard_of: 1";
    let loading = of_yaml("", loading).into_iter();
    options.extend(
        loading.map(|(option, text)| (option, format!("blocking: {{loading: {{{text}}}}}"))),
    );
    check(Origin::Blocky, "b.yml", "", &borrowed(&options));
    let lists = "blocking: {denylists: {a: ['https://lists.example/a']}}";
    let refreshed =
        "blocking: {denylists: {a: ['https://lists.example/a']}, loading: {refreshPeriod: 4h}}";
    check(Origin::Blocky, "b.yml", lists, &[("refreshPeriod", refreshed)]);
    let mapped = "customDNS: {mapping: {a.lan: 192.0.2.1}}";
    check(
        Origin::Blocky,
        "b.yml",
        mapped,
        &[("customTTL", "customDNS: {mapping: {a.lan: 192.0.2.1}, customTTL: 9m}")],
    );
    let hosts = "hostsFile: {sources: [\"192.0.2.1 a.lan\\n127.0.0.1 b.lan\\n\"]}";
    let of_hosts = [
        ("filterLoopback", hosts.replace("]}", "], filterLoopback: true}")),
        ("hostsTTL", hosts.replace("]}", "], hostsTTL: 9m}")),
    ];
    let of_hosts: Vec<(&str, &str)> =
        of_hosts.iter().map(|(option, text)| (*option, text.as_str())).collect();
    check(Origin::Blocky, "b.yml", hosts, &of_hosts);
}

/// The options of dnsmasq(8), with a value if they take one.
const DNSMASQ: &str = "expand-hosts local-ttl=60 dhcp-ttl=60 neg-ttl=60 max-ttl=60 max-cache-ttl=60 min-cache-ttl=60 \
    auth-ttl=60 fast-dns-retry=1000 keep-in-foreground no-daemon log-queries log-facility=/x log-debug log-async=5 \
    pid-file=/x user=x group=x version port=5353 edns-packet-max=1232 query-port=5300 port-limit=2 min-port=1024 \
    max-port=2048 interface=eth0 except-interface=eth0 auth-server=a.example,eth0 local-service no-dhcp-interface=eth0 \
    no-dhcpv4-interface=eth0 no-dhcpv6-interface=eth0 listen-address=192.0.2.1 bind-interfaces bind-dynamic \
    localise-queries bogus-priv alias=192.0.2.1,192.0.2.2 bogus-nxdomain=192.0.2.1 ignore-address=192.0.2.1 \
    filterwin2k filter-A filter-AAAA filter-rr=ANY cache-rr=ANY resolv-file=/gone no-poll clear-on-reload domain-needed \
    local=/lan/ server=192.0.2.1 server=192.0.2.1@eth0 rev-server=192.0.2.0/24,192.0.2.1 \
    rev-server=192.0.2.0/24,192.0.2.1@eth0 address=/x.example/192.0.2.1 address=/y.example/ ipset=/x/y nftset=/x/y \
    connmark-allowlist-enable connmark-allowlist=1,x mx-host=a.example,b.example,5 mx-target=a.example selfmx localmx \
    srv-host=_a._tcp.a.example,b.example,5 host-record=a.example,192.0.2.1 dynamic-host=a.example,0.0.0.8,eth0 \
    txt-record=a.example,x ptr-record=1.2.0.192.in-addr.arpa,a.example naptr-record=a.example,1,2,u,sip,!a!b!,. \
    caa-record=a.example,0,issue,ca.example cname=a.example,b.example dns-rr=a.example,99,00 \
    interface-name=a.example,eth0 synth-domain=a.example,192.0.2.0/24 dumpfile=/x dumpmask=1 add-mac add-cpe-id=x \
    strip-mac add-subnet=24 strip-subnet umbrella cache-size=9 no-negcache no-0x20-encode do-0x20-encode \
    dns-forward-max=9 dnssec trust-anchor=.,1,8,2,AA dnssec-check-unsigned dnssec-no-timecheck dnssec-timestamp=/x \
    dnssec-limits=1 dnssec-debug proxy-dnssec auth-zone=a.example auth-soa=1 auth-sec-servers=a.example \
    auth-peer=192.0.2.1 conntrack dhcp-range=192.0.2.1,192.0.2.9 dhcp-host=x dhcp-hostsfile=/x dhcp-optsfile=/x \
    dhcp-hostsdir=/x dhcp-optsdir=/x read-ethers dhcp-option=3,192.0.2.1 dhcp-option-force=3 dhcp-no-override \
    dhcp-relay=192.0.2.1,192.0.2.2 dhcp-vendorclass=x dhcp-userclass=x dhcp-mac=x dhcp-circuitid=x dhcp-remoteid=x \
    dhcp-subscrid=x dhcp-proxy dhcp-match=x dhcp-name-match=x tag-if=x dhcp-ignore=x dhcp-ignore-names \
    dhcp-generate-names dhcp-broadcast dhcp-boot=x dhcp-sequential-ip dhcp-ignore-clid pxe-service=x pxe-prompt=x \
    dhcp-pxe-vendor=x dhcp-lease-max=9 dhcp-authoritative dhcp-rapid-commit dhcp-alternate-port bootp-dynamic no-ping \
    log-dhcp quiet-dhcp quiet-dhcp6 quiet-ra quiet-tftp dhcp-leasefile=/x dhcp-duid=1,2 dhcp-script=/x \
    dhcp-luascript=/x dhcp-scriptuser=x script-arp leasefile-ro script-on-renewal bridge-interface=x shared-network=x \
    domain=lan,192.0.2.0/24 domain=lan,192.0.2.0/24,local dhcp-fqdn dhcp-client-update enable-ra ra-param=x \
    dhcp-reply-delay=1 enable-tftp tftp-root=/x tftp-no-fail tftp-unique-root tftp-secure tftp-lowercase tftp-max=9 \
    tftp-mtu=9 tftp-no-blocksize tftp-port-range=1,2 tftp-single-port conf-file=/gone conf-dir=/gone servers-file=/gone \
    conf-script=/x addn-hosts=/gone hostsdir=/gone stop-dns-rebind rebind-localhost-ok rebind-domain-ok=/a.example/ \
    strict-order all-servers dns-loop-detect max-tcp-connections=9 address=/#/192.0.2.1 server=//192.0.2.1 \
    use-stale-cache unheard-of=1";

#[test]
fn of_dnsmasq() {
    let base = "no-resolv\nno-hosts\nserver=192.0.2.8\nserver=192.0.2.9\n";
    let texts: Vec<(String, String)> = DNSMASQ
        .split_ascii_whitespace()
        .map(|line| (line.split('=').next().unwrap_or(line).to_owned(), format!("{base}{line}\n")))
        // The effect of these options shows only in combination with others.
        .map(|(key, text)| match key.as_str() {
            "expand-hosts" => (key, format!("{text}local-ttl=9\nhost-record=a,192.0.2.1\n")),
            "local-ttl" => (key, format!("{text}host-record=a,192.0.2.1\n")),
            _ => (key, text),
        })
        .collect();
    check(Origin::Dnsmasq, "d.conf", base, &borrowed(&texts));
    let files = |text: &str| {
        let files = Memory::default().with("d.conf", text).with("/h", "192.0.2.1 nas\n");
        run(Origin::Dnsmasq, "d.conf", &files).unwrap().config
    };
    let plain = files("no-resolv\nno-hosts\naddn-hosts=/h\n");
    assert!(files("no-resolv\nno-hosts\naddn-hosts=/h\ndomain=lan\nexpand-hosts\n") != plain);
}

#[test]
fn of_pihole_six() {
    let tables = [
        (
            "dns",
            "upstreams=['192.0.2.1'] CNAMEdeepInspect=false blockESNI=false EDNS0ECS=false ignoreLocalhost=true \
             showDNSSEC=false analyzeOnlyAandAAAA=true piholePTR='NONE' replyWhenBusy='DROP' blockTTL=77 \
             hosts=['192.0.2.1,a'] domainNeeded=true bogusPriv=false dnssec=true interface='eth0' \
             hostRecord='a.example,192.0.2.1' listeningMode='ALL' queryLogging=false \
             cnameRecords=['a.example,b.example'] port=5353 localise=false revServers=['false,192.0.2.0/24,192.0.2.1'] \
             unheardOf=1",
        ),
        ("dns.cache", "size=9 optimizer=9 upstreamBlockedTTL=9"),
        ("dns.blocking", "active=false mode='NXDOMAIN' edns='TEXT' unheardOf=1"),
        (
            "dns.specialDomains",
            "mozillaCanary=true iCloudPrivateRelay=true designatedResolver=true unheardOf=1",
        ),
        ("dns.reply.host", "force4=true IPv4='192.0.2.1' force6=true IPv6='2001:db8::1'"),
        ("dns.rateLimit", "unheardOf=1"),
        ("dns.domain", "unheardOf=1"),
        ("dhcp", "active=true start='192.0.2.1' leaseTime='1h' logging=true hosts=['x']"),
        ("ntp.ipv4", "active=true address='192.0.2.1'"),
        ("resolver", "resolveIPv4=false networkNames=false refreshNames='NONE'"),
        ("database", "DBimport=false maxDBdays=9 useWAL=false"),
        ("webserver", "domain='x' acl='+192.0.2.0/24' port='80' threads=9"),
        ("webserver.api", "pwhash='x' excludeClients=['x']"),
        ("files", "pid='/x' database='/x' gravity='/x'"),
        (
            "misc",
            "privacylevel=1 delay_startup=1 nice=1 addr2line=false etc_dnsmasq_d=true \
             dnsmasq_lines=['address=/a.example/192.0.2.1'] extraLogging=true readOnly=true unheardOf=1",
        ),
        ("misc.check", "load=false disk=50"),
        ("debug", "database=true all=true"),
    ];
    let mut options = Vec::new();
    for (table, keys) in tables {
        for key in keys.split_ascii_whitespace() {
            let option = key.split('=').next().unwrap_or(key);
            // Some tables get a single note as a whole.
            let named = match table.split('.').next() {
                Some("dns" | "misc")
                    if !table.starts_with("misc.")
                        && table != "dns.cache"
                        && table != "dns.reply.host" =>
                {
                    option
                }
                Some("dns") => table.rsplit('.').next().unwrap_or(table),
                Some("misc") => "check",
                Some(top) => top,
                None => option,
            };
            options.push((named.to_owned(), format!("[{table}]\n{key}\n")));
        }
    }
    check(Origin::Pihole, "pihole.toml", "[dns]\n", &borrowed(&options));
}

#[test]
fn of_pihole_six_that_depend_on_others() {
    let of = |text: &str| text.to_owned();
    let more = [
        (
            of("force4"),
            of("[dns.blocking]\nmode='IP'\n[dns.reply.blocking]\nforce4=true\nIPv4='192.0.2.1'\n"),
        ),
        (of("rateLimit"), of("[dns.rateLimit]\ncount=10\ninterval=1\n")),
        (of("domain"), of("[dns.domain]\nname='lan'\nlocal=true\n")),
        (
            of("expandHosts"),
            of("[dns]\nexpandHosts=true\nhosts=['192.0.2.1 a']\n[dns.domain]\nname='lan'\n"),
        ),
    ];
    check(Origin::Pihole, "pihole.toml", "[dns]\n", &borrowed(&more));
}

#[test]
fn of_pihole_five() {
    let settings = "PIHOLE_INTERFACE IPV4_ADDRESS QUERY_LOGGING INSTALL_WEB_SERVER INSTALL_WEB_INTERFACE \
        LIGHTTPD_ENABLED CACHE_SIZE DNS_BOGUS_PRIV WEBPASSWORD API_QUERY_LOG_SHOW TEMPERATUREUNIT WEBTHEME ADMIN_EMAIL \
        DHCP_START HOSTRECORD";
    let options: Vec<(String, String)> = settings
        .split_ascii_whitespace()
        .map(|key| (key.to_owned(), format!("{key}=secret\n")))
        .collect();
    check(Origin::Pihole, "setupVars.conf", "A=\n", &borrowed(&options));
    let known = [
        ("PIHOLE_DNS_1", "PIHOLE_DNS_1=192.0.2.1\n"),
        ("DNSMASQ_LISTENING", "DNSMASQ_LISTENING=single\n"),
        ("DNS_FQDN_REQUIRED", "DNS_FQDN_REQUIRED=true\n"),
        ("DNSSEC", "DNSSEC=true\n"),
        ("BLOCKING_ENABLED", "BLOCKING_ENABLED=false\n"),
        ("DHCP_ACTIVE", "DHCP_ACTIVE=true\n"),
        ("CONDITIONAL_FORWARDING", "CONDITIONAL_FORWARDING=true\n"),
        (
            "REV_SERVER",
            "REV_SERVER=true\nREV_SERVER_CIDR=192.0.2.0/24\nREV_SERVER_TARGET=192.0.2.1\n",
        ),
    ];
    check(Origin::Pihole, "setupVars.conf", "A=\n", &known);
    let resolver = "MAXDBDAYS PRIVACYLEVEL REPLY_WHEN_BUSY MOZILLA_CANARY PIHOLE_PTR NICE";
    let options: Vec<(String, String)> = resolver
        .split_ascii_whitespace()
        .map(|key| (key.to_owned(), format!("{key}=1\n")))
        .collect();
    check(Origin::Pihole, "pihole-FTL.conf", "A=\n", &borrowed(&options));
    let secret = run_text(Origin::Pihole, "setupVars.conf", "WEBPASSWORD=secret\n").unwrap();
    assert!(!secret.notes.iter().any(|note| note.contains("secret")), "{:?}", secret.notes);
}
