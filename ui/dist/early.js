// Before the first paint and the scripts of the pages: the language and the theme that the user chose,
// if they are not those of the system; the look-up of the session; and the files of the language and
// of the page at the address, which the build lists in the document.
(() => {
  const chosen = localStorage.getItem('avocet-theme');
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen;

  const wanted = [localStorage.getItem('avocet-language'), ...navigator.languages];
  const codes = wanted.map((one) => one?.slice(0, 2).toLowerCase());
  const language = codes.find((code) => code === 'en' || code === 'de') ?? 'en';
  document.documentElement.lang = language;

  globalThis.avocetSession = fetch('/api/v1/session', { credentials: 'same-origin' });
  // The pages report what fails.
  globalThis.avocetSession.catch(() => {});

  const listed = document.querySelector('meta[name=files]')?.content;
  const { texts = {}, pages = {} } = JSON.parse(listed || '{}');
  const page = location.pathname.split('/')[1] || 'overview';
  const files = [texts[language] ?? [], Object.hasOwn(pages, page) ? pages[page] : []].flat();
  for (const file of files) {
    const link = document.createElement('link');
    const isScript = file.endsWith('.js');
    link.rel = isScript ? 'modulepreload' : 'preload';
    if (!isScript) link.as = 'style';
    link.href = file;
    link.crossOrigin = '';
    document.head.append(link);
  }
})();
