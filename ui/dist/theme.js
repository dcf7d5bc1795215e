// Before the first paint: the theme that the user chose, if it is not that of the system.
(() => {
  const chosen = localStorage.getItem('avocet-theme');
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen;
})();
