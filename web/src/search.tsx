import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface SearchProps {
  value: string;
  label: string;
  placeholder: string;
  onSearch: (text: string) => void;
}

/** The pause between the last key and the search. */
const debounce = 200;

/** A search box. "/" anywhere on the page focuses it, Escape clears it. */
export function Search({ value, label, placeholder, onSearch }: SearchProps) {
  const text = useSignal(value);
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const latest = useRef(onSearch);
  latest.current = onSearch;

  useEffect(() => {
    // If "back" changed the address, the box follows unless the user is typing in it.
    if (document.activeElement !== input.current) text.value = value;
  }, [value]);

  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || target.matches("input, textarea, select")) return;
      event.preventDefault();
      input.current?.focus();
    };
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("keydown", onKey);
      clearTimeout(timer.current);
    };
  }, []);

  const change = (next: string, wait: number): void => {
    text.value = next;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => latest.current(next.trim()), wait);
  };

  return (
    <search class="search">
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <circle cx="7" cy="7" r="4.5" />
        <path d="m10.5 10.5 3.5 3.5" />
      </svg>
      <input
        ref={input}
        type="search"
        aria-label={label}
        aria-keyshortcuts="/"
        placeholder={placeholder}
        autoComplete="off"
        spellcheck={false}
        value={text.value}
        onInput={(event) => change(event.currentTarget.value, debounce)}
        onKeyDown={(event) => {
          if (event.key === "Escape") change("", 0);
          if (event.key === "Enter") change(event.currentTarget.value, 0);
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </search>
  );
}
