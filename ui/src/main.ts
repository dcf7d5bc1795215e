import './styles/tokens.css';
import './styles/base.css';
import './styles/shared.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { listen } from './router.svelte';
import { loadTexts } from './texts';

await loadTexts();
listen();
const target = document.getElementById('app');
if (target) mount(App, { target });
