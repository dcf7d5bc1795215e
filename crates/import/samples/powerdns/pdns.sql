CREATE TABLE domains (id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL COLLATE NOCASE, master VARCHAR(128), type VARCHAR(8) NOT NULL);
CREATE TABLE records (id INTEGER PRIMARY KEY, domain_id INTEGER, name VARCHAR(255), type VARCHAR(10), content VARCHAR(65535), ttl INTEGER, prio INTEGER, disabled BOOLEAN DEFAULT 0, auth BOOL DEFAULT 1);
CREATE TABLE domainmetadata (id INTEGER PRIMARY KEY, domain_id INT NOT NULL, kind VARCHAR(32), content TEXT);
CREATE TABLE cryptokeys (id INTEGER PRIMARY KEY, domain_id INT NOT NULL, flags INT NOT NULL, active BOOL, published BOOL, content TEXT);
CREATE TABLE tsigkeys (id INTEGER PRIMARY KEY, name VARCHAR(255), algorithm VARCHAR(50), secret VARCHAR(255));
INSERT INTO domains VALUES (1, 'example.net', NULL, 'MASTER'), (2, 'away.example', '198.51.100.1, 198.51.100.2:5300', 'SLAVE'),
  (3, '0/25.2.0.192.in-addr.arpa', NULL, 'NATIVE');
INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled) VALUES
  (1, 'example.net', 'SOA', 'ns1.example.net hostmaster.example.net 0', 3600, 0, 0),
  (1, 'example.net', 'NS', 'ns1.example.net', 3600, 0, 0),
  (1, 'example.net', 'MX', 'mail.example.net', 3600, 10, 0),
  (1, 'ns1.example.net', 'A', '192.0.2.1', 3600, 0, 0),
  (1, 'mail.example.net', 'A', '192.0.2.2', 3600, 0, 0),
  (1, '*.wild.example.net', 'A', '192.0.2.9', 60, 0, 0),
  (1, '_sip._tcp.example.net', 'SRV', '5 5060 mail.example.net', 60, 1, 0),
  (1, 'www.example.net', 'CNAME', 'mail.example.net.', 60, 0, 0),
  (1, 'text.example.net', 'TXT', '"v=spf1 -all" "two; parts"', 60, 0, 0),
  (1, 'off.example.net', 'A', '192.0.2.3', 60, 0, 1),
  (1, 'alias.example.net', 'ALIAS', 'www.example.org', 60, 0, 0),
  (1, 'broken.example.net', 'A', 'not an address', 60, 0, 0),
  (1, 'empty.example.net', NULL, NULL, NULL, NULL, 0),
  (2, 'away.example', 'SOA', 'ns.away.example h.away.example 7 1 1 1 1', 3600, 0, 0),
  (3, '0/25.2.0.192.in-addr.arpa', 'SOA', 'ns1.example.net hostmaster.example.net 2024010101 10800 3600 604800 3600', 3600, 0, 0),
  (3, '0/25.2.0.192.in-addr.arpa', 'NS', 'ns1.example.net', 3600, 0, 0),
  (3, '1.0/25.2.0.192.in-addr.arpa', 'PTR', 'ns1.example.net', 3600, 0, 0);
INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'ALLOW-AXFR-FROM', '198.51.100.53'), (1, 'ALLOW-AXFR-FROM', 'AUTO-NS'),
  (1, 'TSIG-ALLOW-AXFR', 'transfer'), (1, 'ALSO-NOTIFY', '198.51.100.53:5300'), (1, 'SOA-EDIT-API', 'DEFAULT'),
  (1, 'TSIG-ALLOW-DNSUPDATE', 'transfer'), (2, 'AXFR-MASTER-TSIG', 'transfer'), (3, 'LUA-AXFR-SCRIPT', '/x.lua');
INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('transfer', 'hmac-sha256', 'c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE='),
  ('unused', 'hmac-sha256', 'c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE='), ('weak', 'hmac-md5', 'c2VjcmV0IHNlY3JldA==');
INSERT INTO cryptokeys (domain_id, flags, active, published, content) VALUES (1, 257, 1, 1, 'Private-key-format: v1.2');
