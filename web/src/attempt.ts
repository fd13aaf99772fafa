import { describe } from "./api";

/** Runs act and reports its error as text, or "" on success. */
export async function attempt(act: () => Promise<unknown>, report: (text: string) => void): Promise<void> {
  try {
    await act();
    report("");
  } catch (thrown) {
    report(describe(thrown));
  }
}
