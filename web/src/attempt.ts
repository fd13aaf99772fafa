import { describe } from "./api";

/** Does something, and passes on its error as a text, or "" when it is done. */
export async function attempt(act: () => Promise<unknown>, report: (text: string) => void): Promise<void> {
  try {
    await act();
    report("");
  } catch (thrown) {
    report(describe(thrown));
  }
}
