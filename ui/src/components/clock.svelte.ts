// The present second, for texts such as "3 minutes ago". One timer serves all of them.

class Clock {
  now = $state(Date.now() / 1000);

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now() / 1000;
    }, 10_000);
  }
}

export const clock = new Clock();
