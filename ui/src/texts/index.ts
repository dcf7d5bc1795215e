// The texts of the language that the user chose, or that the browser asks for. The language does
// not change while the page is open: a choice loads the page again.

import { en } from './en';

/** The texts of a language. Those in English are the type of all others. */
export type Texts = typeof en;

/** The languages, by their own names. */
export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const;
export type Language = keyof typeof LANGUAGES;

const STORED = 'avocet-language';

function chosen(): Language {
  const wanted = [localStorage.getItem(STORED), ...navigator.languages];
  for (const one of wanted) {
    const code = one?.slice(0, 2).toLowerCase();
    if (code && code in LANGUAGES) return code as Language;
  }
  return 'en';
}

export const language: Language = chosen();

/** The language with the region of the user, for numbers and times. */
export const locale: string = navigator.languages.find((one) => one.startsWith(language)) ?? language;

/** The texts, once `loadTexts` has finished. */
export let text: Texts = en;

/** Loads the texts of another language than English. */
export async function loadTexts(): Promise<void> {
  document.documentElement.lang = language;
  if (language === 'de') text = (await import('./de')).de;
}

/** Chooses a language, and loads the page again. */
export function chooseLanguage(code: Language): void {
  localStorage.setItem(STORED, code);
  location.reload();
}
