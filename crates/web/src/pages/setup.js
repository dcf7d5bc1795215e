"use strict";
// The part of the address after # is the link; browsers send it to nobody.
const link = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
const byId = (id) => document.getElementById(id);
const show = (text) => { byId("result").textContent = text; };
if (!link) show("The link is incomplete: open the whole link from the log of the server.");
byId("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = { link, name: byId("name").value, password: byId("password").value };
  try {
    const response = await fetch("/api/v1/setup", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(fields),
    });
    const reply = await response.json();
    if (response.ok) {
      byId("form").hidden = true;
      show(`The user ${reply.name} is added. Log in with POST /api/v1/session.`);
    } else {
      show(`${reply.title}: ${reply.detail}. Next: ${reply.next}.`);
    }
  } catch (error) {
    show(`The server does not answer: ${error.message}`);
  }
});
