// Short messages about what was done, with a way to undo it.

import { problemOf } from '../api/client';
import { text } from '../texts';

export interface Toast {
  id: number;
  tone: 'good' | 'bad';
  message: string;
  hint?: string | undefined;
  undo?: (() => void | Promise<void>) | undefined;
}

/** Milliseconds that a message stays: longer with an undo, because it has to be reached. */
const STAYS = 6000;
const STAYS_WITH_UNDO = 12_000;
const MOST = 4;

class Toasts {
  all = $state<Toast[]>([]);
  #last = 0;

  /** Says that something was done. */
  done(message: string, undo?: () => void | Promise<void>): void {
    this.#show({ tone: 'good', message, undo });
  }

  /** Says that something did not work, and what to do. */
  failed(error: unknown): void {
    const problem = problemOf(error);
    const hint = `${text.common.next} ${problem.next}`;
    this.#show({ tone: 'bad', message: problem.detail || problem.title, hint });
  }

  dismiss(id: number): void {
    this.all = this.all.filter((toast) => toast.id !== id);
  }

  /** Undoes what a message is about. */
  async undo(toast: Toast): Promise<void> {
    this.dismiss(toast.id);
    try {
      await toast.undo?.();
    } catch (error) {
      this.failed(error);
    }
  }

  #show(toast: Omit<Toast, 'id'>): void {
    this.#last += 1;
    const id = this.#last;
    this.all = [...this.all, { ...toast, id }].slice(-MOST);
    setTimeout(() => this.dismiss(id), toast.undo ? STAYS_WITH_UNDO : STAYS);
  }
}

export const toasts = new Toasts();

/** Does something, says so, and offers to undo it. */
export async function doWithUndo(
  work: () => Promise<unknown>,
  message: string,
  undo?: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await work();
  } catch (error) {
    toasts.failed(error);
    return false;
  }
  toasts.done(message, undo && (async () => void (await undo())));
  return true;
}
