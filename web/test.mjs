// Bundles each test (node cannot read TypeScript by itself in every version we allow) and runs them with node's runner.
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = fileURLToPath(new URL(".", import.meta.url));
const out = await mkdtemp(join(tmpdir(), "greenroom-web-test-"));
try {
  const tests = (await readdir(join(web, "test"))).filter((name) => name.endsWith(".test.ts")).sort();
  if (tests.length === 0) throw new Error("no tests found");
  await build({
    absWorkingDir: web,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    sourcemap: "inline",
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "warning",
  });
  const files = tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
  // A zone with summer time: a test that only holds in UTC should fail for everybody.
  const env = { ...process.env, TZ: "Europe/Brussels" };
  const run = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit", env });
  process.exitCode = run.status ?? 1;
} finally {
  await rm(out, { recursive: true, force: true });
}
