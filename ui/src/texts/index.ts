// The texts of the language that the user chose, or that the browser asks for. The language does
// not change while the page is open: a choice loads the page again. Each language is a file of its
// own, which the document asks for along with the scripts.

import type { en } from './en';

/** The texts of a language. Those in English are the type of all others. */
export type Texts = typeof en;

/** The languages, by their own names. */
export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const;
export type Language = keyof typeof LANGUAGES;

const STORED = 'avocet-language';
const FILES: Record<Language, () => Promise<Texts>> = {
  en: () => import('./en').then((file) => file.en),
  de: () => import('./de').then((file) => file.de),
};

/** The language, which `early.js` has chosen. */
export const language = document.documentElement.lang as Language;

/** The language with the region of the user, for numbers and times. */
export const locale: string = navigator.languages.find((one) => one.startsWith(language)) ?? language;

/** The texts, once `loadTexts` has finished. */
export let text: Texts;

/** Loads the texts. */
export async function loadTexts(): Promise<void> {
  text = await FILES[language]();
}

/** Chooses a language, and loads the page again. */
export function chooseLanguage(code: Language): void {
  localStorage.setItem(STORED, code);
  location.reload();
}
