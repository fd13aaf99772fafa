import { api } from "./api";
import { now } from "./clock";
import { formatPlural, formatTime, formatUptime } from "./format";
import { usePolled } from "./polled";
import { mayManage } from "./session";
import type { Cluster, Move, NodeInfo } from "./types";

const stateWords: Readonly<Record<string, string>> = {
  up: "up",
  drained: "drained: takes the store no more",
  silent: "does not answer",
};

function lease(node: NodeInfo): string {
  if (node.state === "silent") return "unknown";
  return node.lease ? "valid" : "none";
}

function Nodes({ cluster }: { cluster: Cluster }) {
  return (
    <section class="card scrolled" aria-label="Nodes">
      <h2>Nodes</h2>
      <table class="listed nodes-listed">
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col">State</th>
            <th scope="col">Lease</th>
            <th scope="col">Store</th>
            <th scope="col">HTTP</th>
            <th scope="col">MQTT</th>
            <th scope="col">Other nodes</th>
            <th scope="col">Version</th>
          </tr>
        </thead>
        <tbody>
          {cluster.nodes.map((node) => (
            <tr key={node.name}>
              <th scope="row">{node.name}</th>
              <td>
                <span class={`node-state ${node.state}`}>{stateWords[node.state] ?? node.state}</span>
              </td>
              <td>{lease(node)}</td>
              <td>{node.name === cluster.owner ? "owner" : ""}</td>
              <td>{node.http}</td>
              <td>{node.mqtt}</td>
              <td>{node.link}</td>
              <td>{node.version}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <footer>
        <span role="status">{formatPlural(cluster.nodes.length, "node")}</span>
      </footer>
    </section>
  );
}

/** Each owner with how long it had the store: until the next one took it. */
function Moves({ moves }: { moves: readonly Move[] }) {
  return (
    <section class="card scrolled" aria-label="Owners of the store">
      <h2>Owners of the store</h2>
      <table class="listed moves-listed">
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col">Since</th>
            <th scope="col">For</th>
            <th scope="col">Epoch</th>
          </tr>
        </thead>
        <tbody>
          {moves.map((move, i) => (
            <tr key={move.epoch}>
              <th scope="row">{move.node}</th>
              <td>
                <time dateTime={new Date(move.at_ms).toISOString()}>{formatTime(move.at_ms, now.value)}</time>
              </td>
              <td>{formatUptime((moves[i - 1]?.at_ms ?? now.value) - move.at_ms)}</td>
              <td>{String(move.epoch)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <footer>
        <span>The newest is the first.</span>
      </footer>
    </section>
  );
}

/** The nodes that share the store, and which of them owns it: for who may manage the server. */
export function ClusterPage() {
  const manager = mayManage();
  const cluster = usePolled((abort) => (manager ? api.cluster(abort) : Promise.resolve(null)), 2000, [manager]);
  return (
    <main id="main" class="page cluster" tabIndex={-1}>
      <h1 class="page-name">Cluster</h1>
      <p role="alert">{cluster.error}</p>
      {cluster.value && (
        <>
          <section class="card owner" aria-label="Owner">
            <p>
              <strong>{cluster.value.owner}</strong> has owned the store for {formatUptime(now.value - cluster.value.since_ms)}, with the epoch {String(cluster.value.epoch)}. The
              other nodes pass on to it what clients send.
            </p>
          </section>
          <Nodes cluster={cluster.value} />
          <Moves moves={cluster.value.moves} />
        </>
      )}
    </main>
  );
}
