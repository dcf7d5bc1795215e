// How devices are connected: what the page takes from the report of the server.

import type { ConnectForm, ConnectProtocol, ConnectReport } from '../../api/schema';

/** The parts of the page. */
export const PARTS = ['phone', 'computer', 'browser', 'router', 'programs'] as const;
export type Part = (typeof PARTS)[number];

/** The ports that devices use if nobody can enter another one. */
export const PLAIN_PORT = 53;
export const TLS_PORT = 853;

/** Returns the way with a protocol. */
export function endpoint(report: ConnectReport, protocol: ConnectProtocol): ConnectReport['endpoints'][number] | null {
  return report.endpoints.find((one) => one.protocol === protocol) ?? null;
}

/** Returns the host with its port. */
export function authority(one: { host: string; port: number }): string {
  return `${one.host}:${one.port}`;
}

/** Returns a form as text, or the reason why there is none. */
export function form(report: ConnectReport, wanted: ConnectForm): { text: string | null; reason: string | null } {
  const found = report.documents.find((one) => one.form === wanted);
  return { text: found?.text ?? null, reason: found?.reason ?? report.missing ?? null };
}

/** Returns the addresses for devices of this network. If the server listens at all of its addresses, it
 *  has at least the one that this page came from. */
export function plainAddresses(report: ConnectReport, hostname: string): string[] {
  const { plain } = report;
  if (!plain) return [];
  if (plain.addresses.length > 0) return plain.addresses;
  const host = hostname.replace(/^\[|\]$/g, '');
  return isAddress(host) ? [host] : [];
}

/** Returns whether an address is that of this machine only. */
export function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

function isAddress(host: string): boolean {
  return /^\d+\.\d+\.\d+\.\d+$/.test(host) || host.includes(':');
}

/** Returns a reason of the server, which begins in lower case, as a sentence without marks of code. */
export function sentenceOf(reason: string): string {
  const plain = reason.replaceAll('`', '');
  return `${plain.charAt(0).toUpperCase()}${plain.slice(1)}${/[.!?]$/.test(plain) ? '' : '.'}`;
}
