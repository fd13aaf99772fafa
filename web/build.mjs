// Builds the dashboard into ../server/dist, byte for byte the same each time, so that a build can be
// checked against the committed one. Names carry a hash of their content: they can be cached for ever.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = fileURLToPath(new URL(".", import.meta.url));
const out = join(web, "../server/dist");

const common = {
  absWorkingDir: web,
  bundle: true,
  minify: true,
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none", // their texts are in licenses.txt, with the packages that have no comment
  metafile: true,
  write: false,
  logLevel: "warning",
  outdir: "assets",
  entryNames: "[name]-[hash]",
};

/** Packages whose code is in a build, by name. */
function bundled(metafiles) {
  const names = new Set();
  for (const { inputs } of metafiles) {
    for (const path of Object.keys(inputs)) {
      const match = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
      if (match) names.add(match[1]);
    }
  }
  return [...names].sort();
}

async function license(name) {
  const folder = join(web, "node_modules", name);
  const { version, license: spdx } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} is bundled but has no license file`);
  const text = (await readFile(join(folder, file), "utf8")).replaceAll("\r\n", "\n").trim();
  return `${name} ${version} (${spdx})\n\n${text}\n`;
}

const results = await Promise.all([
  build({ ...common, entryPoints: { app: "src/main.tsx" }, format: "esm", jsx: "automatic", jsxImportSource: "preact" }),
  build({ ...common, entryPoints: { preload: "src/preload.ts" }, format: "iife" }),
  build({ ...common, entryPoints: { style: "src/style.css" } }),
  build({ ...common, entryPoints: { favicon: "static/favicon.svg" }, loader: { ".svg": "copy" } }),
]);

await rm(out, { recursive: true, force: true });
await mkdir(join(out, "assets"), { recursive: true });
let page = await readFile(join(web, "static/index.html"), "utf8");
for (const file of results.flatMap((result) => result.outputFiles)) {
  const name = basename(file.path);
  // The favicon needs an output of its own only; esbuild also makes an empty script that names it.
  if (name.startsWith("favicon") && !name.endsWith(".svg")) continue;
  await writeFile(join(out, "assets", name), file.contents);
  page = page.replace(`{{${name.split("-")[0]}}}`, `assets/${name}`);
  console.log(`${String(file.contents.length).padStart(7)}  assets/${name}`);
}
const missing = /\{\{.*?\}\}/.exec(page);
if (missing) throw new Error(`index.html wants ${missing[0]}, which was not built`);
await writeFile(join(out, "index.html"), page);

const texts = await Promise.all(bundled(results.map((result) => result.metafile)).map(license));
const intro = "The scripts and the style sheet in assets/ contain code of these packages:\n";
await writeFile(join(out, "licenses.txt"), [intro, ...texts].join(`\n${"-".repeat(72)}\n\n`));
