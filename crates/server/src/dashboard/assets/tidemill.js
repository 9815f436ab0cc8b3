// What the pages gain with JavaScript: live regions, local times, shortcuts, dialogs and copy buttons.
// Everything else works without it.
"use strict";
(() => {
  const html = document.documentElement, body = document.body;
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const SECOND = 1000;

  // Times. The server's clock is right; ours may be off.
  const skew = Date.parse(html.dataset.now) - Date.now() || 0;
  const two = (number) => String(number).padStart(2, "0");
  const utc = (date) => date.toISOString().slice(0, 19).replace("T", " ") + " UTC";
  const local = (date) =>
    `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const span = (seconds) => {
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
  };
  const age = (date) => Math.round((Date.now() + skew - date) / SECOND);
  const length = (date) => span(Math.abs(age(date)));
  const relative = (date) => (age(date) < 0 ? `in ${length(date)}` : `${length(date)} ago`);
  const forms = { utc, local, relative };
  function tell(within) {
    const mode = html.dataset.time in forms ? html.dataset.time : "utc";
    for (const element of $$("time[datetime]", within)) {
      const date = new Date(element.dateTime);
      if (isNaN(date)) continue;
      // Broadcasts are told in their own zone.
      const zoned = mode !== "relative" && element.dataset.zoned;
      const text = zoned || (element.className ? length : forms[mode])(date);
      if (element.textContent !== text) element.textContent = text;
      const others = Object.keys(forms).filter((other) => other !== mode);
      element.title = others.map((other) => forms[other](date)).join(" · ");
    }
  }

  // One voice for screen readers: the last word counts, and it speaks every five seconds at most.
  let spoken = 0, waiting = 0;
  function say(text) {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      spoken = Date.now();
      $("#voice").textContent = text;
    }, Math.max(0, spoken + 5 * SECOND - Date.now()));
  }

  // Live regions.
  const pending = new Map();
  let source = null, paused = false, heard = Date.now(), hiddenTimer = 0, reopenTimer = 0;
  const isBusy = (element) => {
    const active = document.activeElement, selection = getSelection();
    const typing = active && element.contains(active) && active.matches("input:not([type=checkbox]), select, textarea, button, summary");
    return typing || $("dialog[open]") || (!selection.isCollapsed && element.contains(selection.anchorNode));
  };
  const boxes = (within) => (within ? $$("[type=checkbox]", within) : []);
  function apply() {
    for (const [region, text] of pending) {
      const find = () => $(`[data-live="${CSS.escape(region)}"]`), old = find();
      if (old && isBusy(old)) continue;
      pending.delete(region);
      if (!old) continue;
      const active = document.activeElement, { href, type, value } = old.contains(active) ? active : {};
      // What somebody has opened, picked, moved aside or walked to stays so.
      const parts = (within) => (within ? $$("details, .scroll", within) : []);
      const called = (part) => part.className + ($("summary", part)?.textContent ?? part.ariaLabel);
      const kept = parts(old).map((part) => [called(part), part.open, part.scrollLeft, part === active]);
      const picked = boxes(old).filter((box) => box.checked).map((box) => box.value);
      old.replaceWith(parse(text));
      for (const box of boxes(find())) {
        box.checked = picked.includes(box.value);
        if (type === "checkbox" && box.value === value) box.focus();
      }
      for (const part of parts(find())) {
        const place = kept.findIndex(([name]) => name === called(part));
        const [[, isOpen, left, isActive] = []] = place < 0 ? [] : kept.splice(place, 1);
        if (isOpen) part.open = true;
        if (left) part.scrollLeft = left;
        if (isActive) part.focus();
      }
      if (href) [...document.links].find((link) => link.href === href)?.focus();
    }
    const named = $("[data-title]");
    if (named) document.title = named.dataset.title;
  }
  function parse(text) {
    const made = document.createElement("template");
    made.innerHTML = text;
    tell(made.content);
    ready(made.content);
    return made.content;
  }
  function hear(event) {
    heard = Date.now();
    return event;
  }
  function open() {
    clearTimeout(reopenTimer);
    if (source || paused || !body.dataset.events) return;
    source = new EventSource(body.dataset.events);
    source.onopen = hear;
    source.addEventListener("beat", hear);
    source.addEventListener("patch", (event) => {
      const patch = JSON.parse(hear(event).data);
      pending.delete(patch.r);
      pending.set(patch.r, patch.h);
      apply();
    });
    source.addEventListener("reload", (event) => {
      hear(event);
      if (!isBusy(body)) location.reload();
    });
    source.onerror = () => {
      // The browser tries again by itself unless it was refused.
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        reopenTimer = setTimeout(open, 5 * SECOND);
      }
    };
  }
  function close() {
    if (source) source.close();
    source = null;
    clearTimeout(reopenTimer);
  }
  function pause() {
    paused = !paused;
    if (paused) close();
    else {
      heard = Date.now();
      open();
    }
    show();
  }
  const STATES = {
    live: ["●", "Live", "ok"], paused: ["‖", "Paused", "idle"],
    reconnecting: ["▲", "Reconnecting", "warn"], offline: ["✖", "Offline", "bad"],
  };
  function show() {
    const line = $("#link");
    if (!line || !body.dataset.events) return;
    const age = Date.now() - heard;
    const isOpen = source && source.readyState === EventSource.OPEN;
    let state = "live";
    if (paused) state = "paused";
    else if (age > 15 * SECOND) state = "offline";
    else if (!isOpen && age > 5 * SECOND) state = "reconnecting";
    const [shape, word, kind] = STATES[state];
    if (html.dataset.link !== state) {
      if (html.dataset.link) say(word);
      html.dataset.link = state;
      line.className = `state ${kind}`;
    }
    line.textContent = `${shape} ${word}`;
    const clock = local(new Date(heard)).slice(11);
    $("#age").textContent = state === "live" ? `updated ${span(Math.round(age / SECOND))} ago` : `as of ${clock}`;
    const live = $("#live");
    live.textContent = paused ? "Live: off" : "Live: on";
    live.setAttribute("aria-pressed", String(!paused));
  }

  // Preferences that can change in place.
  function turn(form, button) {
    const name = button.name, words = button.dataset.cycle.split(" "), word = button.value;
    const fields = new URLSearchParams(new FormData(form));
    fields.set(name, word);
    fetch(form.action, { method: "POST", body: fields, redirect: "manual" }).catch(() => say("The choice was not saved"));
    html.dataset[name] = word;
    button.value = words[(words.indexOf(word) + 1) % words.length];
    $("b", button).textContent = word;
    tell(document);
    say(button.textContent);
  }

  // Questions before what cannot be taken back. Some have a page of their own.
  async function ask(opener) {
    const { href } = opener, dialog = document.createElement("dialog");
    const sheet = href ? $(".sheet", parse(await fetch(href).then((page) => page.text(), String))) : opener.nextSibling;
    if (!sheet) return location.assign(href);
    const back = href && $("[name=back]", sheet);
    if (back) back.value = location.pathname + location.search;
    dialog.setAttribute("aria-label", opener.textContent);
    dialog.append(sheet);
    body.append(dialog);
    dialog.addEventListener("close", () => {
      if (!href) opener.after(sheet);
      dialog.remove();
      opener.focus();
    });
    dialog.showModal();
    $("[data-close]", dialog).focus();
  }

  async function copy(button) {
    const code = $("code", button.parentElement);
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      // Over plain HTTP there is no clipboard: select the text and try the old way.
      getSelection().selectAllChildren(code);
      if (!document.execCommand("copy")) return say("Selected; press Ctrl C");
    }
    button.textContent = "Copied";
    say("Copied");
    setTimeout(() => (button.textContent = "Copy"), 2 * SECOND);
  }

  // What is useless without JavaScript is hidden until now.
  function ready(within) {
    for (const element of $$("[data-script]", within)) element.hidden = false;
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-ask], [data-copy], [data-close], [data-help], #live, details.confirm > summary");
    if (!target) return;
    if (target.matches("[data-copy]")) copy(target);
    else if (target.id === "live") pause();
    else if (target.matches("[data-help]")) $("#help").showModal();
    else if (target.matches("summary, [data-ask]")) {
      event.preventDefault();
      ask(target);
    } else if (target.closest("dialog")) {
      event.preventDefault();
      target.closest("dialog").close();
    }
  });
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button && button.dataset.cycle) {
      event.preventDefault();
      turn(event.target, button);
    } else if (button && event.target.method === "post") {
      // A double click is one wish. Later, so that the button's own value is still sent.
      setTimeout(() => (button.disabled = true));
      setTimeout(() => (button.disabled = false), 5 * SECOND);
    }
  });

  // Shortcuts.
  let prefix = 0;
  document.addEventListener("keydown", (event) => {
    if (html.dataset.shortcuts === "off" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof Element && event.target.closest("input, select, textarea, dialog")) return;
    const key = event.key;
    if (prefix > Date.now()) {
      prefix = 0;
      const link = $(`.nav a[data-key="${CSS.escape(key)}"]`);
      if (link) link.click();
      return;
    }
    const act = {
      g: () => (prefix = Date.now() + 1500),
      "?": () => $("#help") && $("#help").showModal(),
      t: () => $("button[name=theme][data-cycle]")?.click(),
      u: () => $("button[name=time][data-cycle]")?.click(),
      r: () => body.dataset.events && pause(),
    }[key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(close, 30 * SECOND);
    else if (!source) {
      heard = Date.now();
      open();
    }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());

  ready(document);
  tell(document);
  open();
  show();
  setInterval(() => {
    if (document.hidden) return;
    apply();
    show();
    tell(document);
  }, SECOND);
})();
