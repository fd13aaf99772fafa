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
  /** The name of the list, such as Mappings. */
  label: string;
  /** The noun for one item, such as mapping. */
  noun: string;
  /** The heading of the second column. */
  about: string;
  /** Whether items have a state. */
  states?: boolean;
  items: readonly Item[];
  selected: string;
  /** The address for a new item; the link is shown while an item is selected. */
  create?: string;
}

/** The items of a page by name, each with a link. */
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
