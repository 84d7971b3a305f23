// Derives decisions with the script of the receipt's page: one JSON object a line in, one array out.
import { readFileSync } from "node:fs";

const html = readFileSync(process.argv[2], "utf8");
const script = /<script id="verifier">\n([\s\S]*?)<\/script>/.exec(html)[1];
const { TurnAgain, PlacementAgain, ReceiptAudit, programOf, runs, seenText, canonical } = new Function(
  `${script}\nreturn { TurnAgain, PlacementAgain, ReceiptAudit, programOf, runs, seenText, canonical };`,
)();

async function answer(asked) {
  if (asked.receipt !== undefined) {
    const message = asked.message === null ? null : new TextEncoder().encode(asked.message);
    return new ReceiptAudit(asked.receipt, asked.key, message).run();
  }
  if (asked.pattern !== undefined) {
    const program = programOf(asked.pattern);
    return program === null ? null : runs(program, seenText(asked.text));
  }
  const [policy, facts] = [JSON.parse(asked.policy), JSON.parse(asked.facts)];
  const again = asked.room === "turn" ? new TurnAgain(policy, facts, asked.text, asked.chain) : new PlacementAgain(policy, facts, asked.text);
  return again.decide();
}

const answers = [];
for (const line of readFileSync(0, "utf8").split("\n")) {
  if (line) answers.push(canonical(await answer(JSON.parse(line))));
}
process.stdout.write(`${answers.join("\n")}\n`);
