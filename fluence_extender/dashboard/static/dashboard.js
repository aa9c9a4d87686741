// What the pages do by themselves: they keep their live part new, write times as "5m ago", copy commands, submit
// filters, and know "/" and the theme. Nothing is ever made HTML from text: newer parts are taken from a parsed document.
"use strict";

const LIVE = "#live";
const RETRY = 1000;
const UNITS = [["d", 86400], ["h", 3600], ["m", 60]];

function span(seconds) {
  const whole = Math.max(Math.trunc(seconds), 0);
  for (const [suffix, size] of UNITS) {
    if (whole >= 2 * size) return `${Math.floor(whole / size)}${suffix}`;
  }
  return `${whole}s`;
}

function writeTimes() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time.ago, time.until")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    const text = time.classList.contains("ago") ? `${span(seconds)} ago`
      : seconds > 0 ? "now" : `in ${span(-seconds)}`;
    if (time.textContent !== text) time.textContent = text;
  }
}

// Change `shown` into `wanted`, and leave alone what is equal.
function morph(shown, wanted) {
  if (shown.isEqualNode(wanted)) return;
  if (shown.nodeType !== wanted.nodeType || shown.nodeName !== wanted.nodeName) {
    shown.replaceWith(wanted);
    return;
  }
  if (shown.nodeType !== Node.ELEMENT_NODE) {
    shown.nodeValue = wanted.nodeValue;
    return;
  }
  for (const { name } of [...shown.attributes]) {
    if (!wanted.hasAttribute(name)) shown.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  const before = [...shown.childNodes];
  const after = [...wanted.childNodes];
  after.forEach((child, index) => {
    if (index < before.length) morph(before[index], child);
    else shown.append(child);
  });
  before.slice(after.length).forEach((child) => child.remove());
}

function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
}

async function follow() {
  let tag = "";
  for (;;) {
    await visible();
    // A page that nobody sees holds no connection: a browser has only six.
    const stopped = new AbortController();
    const hide = () => { if (document.hidden) stopped.abort(); };
    document.addEventListener("visibilitychange", hide);
    try {
      const answer = await fetch(location.href, { headers: { "Fluence-Wait": tag }, redirect: "manual", signal: stopped.signal });
      document.querySelector("#lost").hidden = true;
      // The proxy in front of us wants the user to log in again, or the key has changed.
      if (answer.type === "opaqueredirect" || [401, 403, 421].includes(answer.status)) { location.reload(); return; }
      if (answer.status !== 204) {
        const newer = new DOMParser().parseFromString(await answer.text(), "text/html");
        const [shown, wanted] = [document.querySelector(LIVE), newer.querySelector(LIVE)];
        if (!wanted) throw new Error("no page");
        morph(shown, document.adoptNode(wanted));
        tag = (answer.headers.get("ETag") || "").replaceAll('"', "");
        writeTimes();
      }
    } catch {
      if (!stopped.signal.aborted) {
        document.querySelector("#lost").hidden = false;
        await new Promise((done) => setTimeout(done, RETRY));
      }
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
  }
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.querySelector("#theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", theme);
  setTheme(theme);
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.querySelector("#search input").focus();
  } else if (event.key === "Escape" && typing) {
    typing.blur();
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1200);
});

document.addEventListener("change", (event) => {
  const form = event.target.closest("form.filters");
  if (form) form.requestSubmit();
});

// An address has only the filters that are set.
document.addEventListener("formdata", (event) => {
  if (event.target.method !== "get") return;
  for (const [name, value] of [...event.formData]) {
    if (!value) event.formData.delete(name);
  }
});

const question = document.querySelector("#question");
if (question) {
  question.addEventListener("dragover", (event) => event.preventDefault());
  question.addEventListener("drop", async (event) => {
    event.preventDefault();
    const texts = await Promise.all([...event.dataTransfer.files].map((file) => file.text()));
    if (texts.length) question.elements.manifest.value = texts.join("\n---\n");
  });
}

setTheme(localStorage.getItem("theme"));
writeTimes();
setInterval(writeTimes, 1000);
// An answer to a question stays as it is.
if (!question) follow();
