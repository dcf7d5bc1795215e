// The theme that the user chose. public/early.js applies it before the first paint.

export type Theme = 'system' | 'light' | 'dark';

const STORED = 'avocet-theme';

export function theme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === 'light' || stored === 'dark' ? stored : 'system';
}

export function chooseTheme(chosen: Theme): void {
  if (chosen === 'system') {
    localStorage.removeItem(STORED);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(STORED, chosen);
    document.documentElement.dataset.theme = chosen;
  }
}
