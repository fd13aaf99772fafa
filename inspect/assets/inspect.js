// Reads the page again every two seconds and replaces what it shows, unless
// somebody selects text in it, looks at another tab or has paused it. What is
// open, scrolled or focused stays so.
const box = document.getElementById("follow");
const stale = document.getElementById("stale");
const places = (main) =>
  new Map([...main.querySelectorAll("[data-key], a[href]")].map((e) => [e.dataset.key ?? e.getAttribute("href"), e]));
const replace = (main) => {
  const old = document.getElementById("actors");
  const before = places(old);
  const focused = document.activeElement;
  const kept = [...places(main)].flatMap(([key, e]) => {
    const was = before.get(key);
    return was ? [{ e, open: was.open, left: was.scrollLeft, top: was.scrollTop, focus: was === focused }] : [];
  });
  for (const { e, open } of kept) if (open) e.open = true;
  old.replaceWith(main);
  for (const { e, left, top, focus } of kept) {
    if (left || top) e.scrollTo(left, top);
    if (focus) e.focus({ preventScroll: true });
  }
};
const refresh = async () => {
  if (box.checked && !document.hidden && getSelection().isCollapsed) {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = page.getElementById("actors"); // also that of an error: the actor has ended
      stale.hidden = Boolean(main);
      if (main && box.checked && getSelection().isCollapsed) replace(document.importNode(main, true));
    } catch {
      stale.hidden = false; // the program has ended or restarts: the page stays as it is
    }
  }
  setTimeout(refresh, 2000);
};
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "post" && !confirm(`${form.getAttribute("action")} ${form.elements.pid.value}?`)) event.preventDefault();
});
document.getElementById("follow-label").hidden = false;
setTimeout(refresh, 2000);
