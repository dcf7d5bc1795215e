CREATE TABLE "group" (id INTEGER PRIMARY KEY, enabled BOOLEAN NOT NULL DEFAULT 1, name TEXT UNIQUE NOT NULL, description TEXT);
CREATE TABLE domainlist (id INTEGER PRIMARY KEY, type INTEGER NOT NULL DEFAULT 0, domain TEXT NOT NULL, enabled BOOLEAN NOT NULL DEFAULT 1, comment TEXT);
CREATE TABLE adlist (id INTEGER PRIMARY KEY, address TEXT NOT NULL, enabled BOOLEAN NOT NULL DEFAULT 1, comment TEXT, type INTEGER NOT NULL DEFAULT 0);
CREATE TABLE client (id INTEGER PRIMARY KEY, ip TEXT NOT NULL UNIQUE, comment TEXT);
CREATE TABLE adlist_by_group (adlist_id INTEGER NOT NULL, group_id INTEGER NOT NULL, PRIMARY KEY (adlist_id, group_id));
CREATE TABLE domainlist_by_group (domainlist_id INTEGER NOT NULL, group_id INTEGER NOT NULL, PRIMARY KEY (domainlist_id, group_id));
CREATE TABLE client_by_group (client_id INTEGER NOT NULL, group_id INTEGER NOT NULL, PRIMARY KEY (client_id, group_id));
CREATE TABLE gravity (domain TEXT NOT NULL, adlist_id INTEGER NOT NULL);
INSERT INTO "group" VALUES (0, 1, 'Default', 'The default group'), (1, 1, 'Kids', 'the children'), (2, 0, 'Guests', NULL);
INSERT INTO adlist VALUES (1, 'https://lists.example/hosts', 1, 'Migrated', 0), (2, 'https://lists.example/kids.txt', 1, NULL, 0),
  (3, 'https://lists.example/gone', 0, NULL, 0), (4, 'https://lists.example/allow.txt', 1, 'ok', 1), (5, 'file:///opt/own.list', 1, '', 0);
INSERT INTO adlist_by_group VALUES (1, 0), (1, 1), (2, 1), (4, 0), (4, 1), (5, 2);
INSERT INTO domainlist VALUES (1, 0, 'good.example', 1, 'needed'), (2, 1, 'bad.example', 1, NULL), (3, 1, 'off.example', 0, NULL),
  (4, 2, '(\.|^)cdn\.example$', 1, NULL), (5, 3, '^ads?[0-9]*\.', 1, 'ads'), (6, 1, 'games.example', 1, NULL);
INSERT INTO domainlist_by_group VALUES (1, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 0), (6, 1);
INSERT INTO client VALUES (1, '192.168.2.20', 'tablet'), (2, '192.168.2.128/25', ''), (3, 'AA:BB:CC:DD:EE:01', 'boss'), (4, ':eth1', ''), (5, 'laptop.lan', NULL);
INSERT INTO client_by_group VALUES (1, 0), (1, 1), (2, 2), (4, 1), (5, 0);
