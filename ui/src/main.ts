import './styles/tokens.css';
import './styles/base.css';
import './styles/shared.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { listen } from './router.svelte';
import { loadTexts } from './texts';

/** Shows the shell. Pages import this file, so it must not wait for any file itself. */
async function start(): Promise<void> {
  await loadTexts();
  listen();
  const target = document.getElementById('app');
  if (target) mount(App, { target });
}

void start();
