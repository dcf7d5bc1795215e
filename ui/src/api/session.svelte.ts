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

  /** Reads the session that the browser has, if it has one. */
  async resume(): Promise<void> {
    try {
      this.#open(await get('/session'));
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
    await remove('/session');
    this.report = null;
    this.state = 'none';
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
