import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";

/** Copies to the clipboard, or by a selection where a page without TLS may not use it. */
async function copy(text: string, element: HTMLElement): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const selection = window.getSelection();
  selection?.selectAllChildren(element);
  if (!document.execCommand("copy")) throw new Error("copy refused");
  selection?.removeAllRanges();
}

/** A command for a terminal, with a button that copies it. */
export function Command({ label, text }: { label: string; text: string }) {
  const said = useSignal("Copy");
  const code = useRef<HTMLElement>(null);
  const onClick = (): void => {
    if (!code.current) return;
    copy(text, code.current).then(
      () => {
        said.value = "Copied";
        setTimeout(() => {
          said.value = "Copy";
        }, 2000);
      },
      () => {
        said.value = "Select it";
      },
    );
  };
  return (
    <div class="command">
      <span class="command-label">{label}</span>
      <pre tabIndex={0}>
        <code ref={code}>{text}</code>
      </pre>
      <button type="button" onClick={onClick} aria-label={`Copy the ${label} command`}>
        <span aria-live="polite">{said.value}</span>
      </button>
    </div>
  );
}
