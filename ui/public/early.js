// Before the first paint and the scripts of the pages: the theme that the user chose, if it is not
// that of the system; the look-up of the session; and the files of the page at the address, which
// the build lists in the document.
(() => {
  const chosen = localStorage.getItem('avocet-theme');
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen;

  globalThis.avocetSession = fetch('/api/v1/session', { credentials: 'same-origin' });
  // The pages report what fails.
  globalThis.avocetSession.catch(() => {});

  const pages = JSON.parse(document.querySelector('meta[name=pages]')?.content || '{}');
  const page = location.pathname.split('/')[1] || 'overview';
  for (const file of Object.hasOwn(pages, page) ? pages[page] : []) {
    const link = document.createElement('link');
    const isScript = file.endsWith('.js');
    link.rel = isScript ? 'modulepreload' : 'preload';
    if (!isScript) link.as = 'style';
    link.href = file;
    link.crossOrigin = '';
    document.head.append(link);
  }
})();
