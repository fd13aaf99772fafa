// A classic script of its own, before the style sheet: the stored theme must be known at the first paint.
try {
  const theme = localStorage.getItem("greenroom.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
} catch {
  // Storage is disabled: use the system's theme.
}

export {};
