// The configuration in force, and the changes that are not saved yet.

import { get, getTagged, isAborted, post, ProblemError, problemOf } from '../../api/client';
import type { CheckedChange, ConfigEdit, OnProbation, RevisionAccepted, ShownConfig } from '../../api/schema';
import { toasts } from '../../components/toasts.svelte';
import { text } from '../../texts';
import { fileValues, toml, withoutPlace, type FileValues, type Value } from './model';

/** A change of a key; without a value, the key is removed from the file. */
interface Draft {
  value: Value | undefined;
  /** The text of its input. */
  shown: string;
}

class Drafts {
  config = $state.raw<ShownConfig | null>(null);
  failure = $state.raw<unknown>(null);
  /** What the file has. */
  file = $state.raw<FileValues>({});
  changes = $state<Record<string, Draft>>({});
  /** What the server says about a value. */
  errors = $state<Record<string, string>>({});
  /** What a save did not put in force yet. */
  restartFor = $state.raw<string[]>([]);
  probation = $state.raw<OnProbation | null>(null);
  #tag: string | null = null;

  count = $derived(Object.keys(this.changes).length);
  edits = $derived(
    Object.entries(this.changes).map(([key, { value }]): ConfigEdit =>
      value === undefined ? { key } : { key, value: toml(value) },
    ),
  );

  /** Reads the configuration in force. */
  async read(): Promise<void> {
    try {
      const { data, tag } = await getTagged('/config');
      const number = data.revision;
      const file = number ? await get('/config/revisions/text', { number }) : null;
      this.file = fileValues(file?.text ?? '');
      this.config = data;
      this.#tag = tag;
      this.failure = null;
    } catch (error) {
      this.failure = error;
    }
  }

  change(key: string, draft: Draft): void {
    this.changes[key] = draft;
    delete this.errors[key];
  }

  discard(key: string): void {
    delete this.changes[key];
    delete this.errors[key];
  }

  discardAll(): void {
    this.changes = {};
    this.errors = {};
  }

  /** Asks the server about the value of one key. */
  async checkOne(key: string): Promise<void> {
    const edit = this.edits.find((one) => one.key === key);
    if (!edit) return;
    try {
      await post('/config/check', { edits: [edit] });
      delete this.errors[key];
    } catch (error) {
      if (isAborted(error)) return;
      const still = this.edits.find((one) => one.key === key);
      if (still?.value !== edit.value) return;
      this.errors[key] = withoutPlace(problemOf(error).detail);
    }
  }

  /** Shows what all changes would do. */
  check(): Promise<CheckedChange> {
    return post('/config/check', { edits: this.edits });
  }

  /** Saves all changes. */
  async save(comment: string): Promise<boolean> {
    const isSaved = await this.submit(this.edits, comment, text.settings.saved);
    if (isSaved) this.discardAll();
    return isSaved;
  }

  /** Makes edits of the configuration in force, and offers to undo them. */
  async submit(edits: ConfigEdit[], comment: string, message: string): Promise<boolean> {
    const base = this.config?.revision ?? null;
    const by = comment ? { comment } : {};
    try {
      const done = await post('/config/changes', { edits, base, by }, { ifMatch: this.#tag });
      this.#accepted(done, message, base);
    } catch (error) {
      this.#refused(error);
      return false;
    }
    await this.read();
    return true;
  }

  /** Puts an earlier revision in force, and offers to undo that. */
  async rollBack(number: number, message: string): Promise<void> {
    const base = this.config?.revision ?? null;
    const done = await post('/config/rollback', { number, by: {} });
    this.#accepted(done, message, base);
    await this.read();
  }

  #accepted(done: RevisionAccepted, message: string, base: number | null): void {
    this.restartFor = [...new Set([...this.restartFor, ...done.reloaded['restart-needed-for']])];
    this.probation = done.probation ?? null;
    const undo = base === null ? undefined : () => this.#undo(base, done.revision);
    toasts.done(message, undo);
  }

  /** Puts a revision in force again, unless somebody has changed something since. */
  async #undo(number: number, mine: number): Promise<void> {
    const { 'in-force': present } = await get('/config/revisions', { limit: 1 });
    if (present !== mine) throw new Error(text.settings.changedSince);
    await post('/config/rollback', { number, by: { comment: text.settings.undone } });
    this.restartFor = [];
    await this.read();
    toasts.done(text.settings.undone);
  }

  #refused(error: unknown): void {
    if (error instanceof ProblemError && (error.code === 'changed' || error.code === 'conflict')) {
      void this.read();
    }
    toasts.failed(error);
  }
}

export const drafts = new Drafts();
