import type { ComponentChildren } from "preact";
import { formatPlural } from "./format";

interface Item {
  name: string;
  title?: string;
  href: string;
  about: ComponentChildren;
  state?: ComponentChildren;
}

interface Props {
  /** What the list is called, such as Mappings. */
  label: string;
  /** One of the things, such as mapping. */
  noun: string;
  /** The heading of what is said about each. */
  about: string;
  /** Whether each has a state. */
  states?: boolean;
  items: readonly Item[];
  selected: string;
  /** Where to make one; shown while one is selected. */
  create?: string;
}

/** The things of a page, by their names, each with a link to it. */
export function NamedList({ label, noun, about, states, items, selected, create }: Props) {
  return (
    <section class="card" aria-label={label}>
      <table class="listed">
        <thead>
          <tr>
            <th scope="col">{noun.charAt(0).toUpperCase() + noun.slice(1)}</th>
            <th scope="col">{about}</th>
            {states && (
              <th scope="col" class="cell-state-word">
                State
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={item.name} aria-selected={item.name === selected}>
              <th scope="row" title={item.title ?? item.name}>
                <a href={item.href}>{item.name}</a>
              </th>
              <td>{item.about}</td>
              {states && <td class="cell-state-word">{item.state}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      <footer>
        <span role="status">{formatPlural(items.length, noun)}</span>
        {create !== undefined && selected !== "" && <> <a href={create}>New {noun}</a></>}
      </footer>
    </section>
  );
}
