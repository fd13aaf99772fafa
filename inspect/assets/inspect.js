// Reads the page again every two seconds and replaces what it shows, unless
// somebody selects text in it, looks at another tab or has paused it.
const box = document.getElementById("follow");
const refresh = async () => {
  if (box.checked && !document.hidden && getSelection().isCollapsed) {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = page.querySelector("main");
      if (answer.ok && main) document.querySelector("main").replaceWith(document.importNode(main, true));
    } catch {
      // The program has ended or restarts: the page stays as it is.
    }
  }
  setTimeout(refresh, 2000);
};
document.getElementById("follow-label").hidden = false;
setTimeout(refresh, 2000);
