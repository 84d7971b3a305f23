import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vite";

const OUT = "../src/pointsman/web/static";

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((each) => {
    const path = join(folder, each.name);
    return each.isDirectory() ? sources(path) : [path];
  });
}

/** Says what the files were built from, so that a test can tell when they are old. */
function manifest() {
  return {
    name: "manifest",
    closeBundle(): void {
      const files = [...sources("src"), "index.html", "package-lock.json"].sort();
      const digests = Object.fromEntries(
        files.map((path) => [path, createHash("sha256").update(readFileSync(path)).digest("hex")]),
      );
      writeFileSync(join(OUT, "manifest.json"), `${JSON.stringify({ sources: digests }, null, 2)}\n`);
    },
  };
}

// Names carry the hash of what is in the file: the gateway lets browsers keep them for ever.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  plugins: [manifest()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    target: "es2022",
  },
});
