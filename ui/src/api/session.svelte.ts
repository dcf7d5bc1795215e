// Who is logged in, and what they may do.

import { get, onSessionEnd, post, ProblemError, remove, setCsrf } from './client';
import type { AccessScope, SessionReport } from './schema';

export type SessionState = 'starting' | 'none' | 'open' | 'ended';

class Session {
  state = $state<SessionState>('starting');
  report = $state<SessionReport | null>(null);

  /** Returns whether the user has a scope. What a user may not do is not offered. */
  may(scope: AccessScope): boolean {
    return this.report?.scopes.includes(scope) ?? false;
  }

  /** The groups that the user is limited to. */
  get groups(): string[] {
    return this.report?.limits?.groups ?? [];
  }

  /** The zones that the user is limited to. */
  get zones(): string[] {
    return this.report?.limits?.zones ?? [];
  }

  /** Whether the user sees and does only what its groups and zones include. */
  get isLimited(): boolean {
    return this.groups.length + this.zones.length > 0;
  }

  /** Reads the session that the browser has, if it has one. `prepare` knows what the user may do, and
   *  runs before the session is open. */
  async resume(prepare: () => Promise<void>): Promise<void> {
    try {
      const report = await get('/session');
      this.report = report;
      await prepare();
      this.#open(report);
    } catch (error) {
      if (error instanceof ProblemError && error.code === 'unauthenticated') {
        this.state = 'none';
        return;
      }
      throw error;
    }
  }

  async logIn(name: string, password: string, code: string | null): Promise<void> {
    this.#open(await post('/session', code ? { name, password, code } : { name, password }));
  }

  async logOut(): Promise<void> {
    const { provider } = await remove('/session');
    this.report = null;
    this.state = 'none';
    // The provider still has a session, which would log in the next person at this browser.
    if (provider) location.assign(provider);
  }

  /** The server does not know the session any more. */
  end(): void {
    if (this.state !== 'open') return;
    this.report = null;
    this.state = 'ended';
  }

  #open(report: SessionReport): void {
    setCsrf(report.csrf);
    this.report = report;
    this.state = 'open';
  }
}

export const session = new Session();
onSessionEnd(() => session.end());
