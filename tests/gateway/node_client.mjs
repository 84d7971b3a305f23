// Node's own fetch, as it comes.
const [url, size] = process.argv.slice(2);

async function post(more = {}) {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "big", messages: [{ role: "user", content: "hello" }], ...more }),
  });
  console.log(await answer.text());
  console.log(answer.status);
}

await post();
await post({ stream: true });
await post({ metadata: { pad: "x".repeat(Number(size)) } });
