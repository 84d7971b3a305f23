// The OpenAI and Anthropic SDKs for Node, and the Vercel AI SDK.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const [URL, MODEL, SDK] = process.argv.slice(2);
const SAID = "hello from the script";
const SEEN = "a picture was seen";
const SUM = "the sum is 5";
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const ASK = [{ role: "user", content: "hi" }];
const NUMBERS = {
  type: "object",
  properties: { a: { type: "integer" }, b: { type: "integer" } },
  required: ["a", "b"],
};

function same(found, wanted) {
  const [one, two] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (one !== two) throw new Error(`${one} instead of ${two}`);
}

const openai = new OpenAI({ baseURL: `${URL}/v1`, apiKey: "none", maxRetries: 0 });
const claude = new Anthropic({ baseURL: URL, apiKey: "none", maxRetries: 0 });
const openaiCases = {
  async text() {
    const answer = await openai.chat.completions.create({ model: MODEL, messages: ASK });
    same(answer.choices[0].message.content, SAID);
  },
  async stream() {
    let text = "";
    const pieces = await openai.chat.completions.create({
      model: MODEL,
      messages: ASK,
      stream: true,
    });
    for await (const each of pieces) text += each.choices[0]?.delta?.content ?? "";
    same(text, SAID);
  },
  async tools() {
    const runner = openai.chat.completions.runTools({
      model: MODEL,
      messages: ASK,
      tools: [
        {
          type: "function",
          function: {
            name: "add",
            parameters: NUMBERS,
            parse: JSON.parse,
            function: ({ a, b }) => String(a + b),
          },
        },
      ],
    });
    same(await runner.finalContent(), SUM);
  },
  async images() {
    const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } };
    const messages = [{ role: "user", content: [image] }];
    const answer = await openai.chat.completions.create({ model: MODEL, messages });
    same(answer.choices[0].message.content, SEEN);
  },
  async responses_stream() {
    let text = "";
    const events = await openai.responses.create({ model: MODEL, input: "hi", stream: true });
    for await (const each of events) {
      if (each.type === "response.output_text.delta") text += each.delta;
    }
    same(text, SAID);
  },
};

const most = { model: MODEL, max_tokens: 300 };
const claudeCases = {
  async text() {
    same((await claude.messages.create({ ...most, messages: ASK })).content[0].text, SAID);
  },
  async stream() {
    const stream = claude.messages.stream({ ...most, messages: ASK });
    same(await stream.finalText(), SAID);
  },
  async tools() {
    const tools = [{ name: "add", input_schema: NUMBERS }];
    const first = await claude.messages.create({ ...most, messages: ASK, tools });
    const call = first.content.find((each) => each.type === "tool_use");
    same(call.input, { a: 2, b: 3 });
    const result = { type: "tool_result", tool_use_id: call.id, content: "5" };
    const messages = [
      ...ASK,
      { role: "assistant", content: first.content },
      { role: "user", content: [result] },
    ];
    const last = await claude.messages.create({ ...most, messages, tools });
    same(last.content[0].text, SUM);
  },
  async images() {
    const source = { type: "base64", media_type: "image/png", data: PIXEL };
    const messages = [{ role: "user", content: [{ type: "image", source }] }];
    same((await claude.messages.create({ ...most, messages })).content[0].text, SEEN);
  },
};

const models = {
  responses: createOpenAI({ baseURL: `${URL}/v1`, apiKey: "none" })(MODEL),
  chat: createOpenAICompatible({
    name: "p",
    baseURL: `${URL}/v1`,
    apiKey: "none",
    supportsStructuredOutputs: true,
  })(MODEL),
  messages: createAnthropic({ baseURL: `${URL}/v1`, apiKey: "none" })(MODEL),
};
const aiCases = {};
for (const [name, model] of Object.entries(models)) {
  Object.assign(aiCases, {
    async [`${name}_text`]() {
      same((await generateText({ model, prompt: "hi", maxRetries: 0 })).text, SAID);
    },
    async [`${name}_stream`]() {
      let text = "";
      for await (const each of streamText({ model, prompt: "hi", maxRetries: 0 }).textStream) {
        text += each;
      }
      same(text, SAID);
    },
    async [`${name}_tools`]() {
      const add = tool({
        inputSchema: z.object({ a: z.number(), b: z.number() }),
        execute: ({ a, b }) => String(a + b),
      });
      const stopWhen = stepCountIs(3);
      const done = await generateText({
        model,
        prompt: "hi",
        tools: { add },
        stopWhen,
        maxRetries: 0,
      });
      same(done.text, SUM);
    },
    async [`${name}_structured_output`]() {
      const schema = z.object({ name: z.string(), age: z.number() });
      const found = await generateObject({ model, schema, prompt: "hi", maxRetries: 0 });
      same(found.object, { name: "Ada", age: 36 });
    },
  });
}

const cases = { openai: openaiCases, anthropic: claudeCases, ai: aiCases }[SDK];
for (const [name, run] of Object.entries(cases)) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`fail ${name} ${error?.name}: ${error?.message}`.replaceAll("\n", " ").slice(0, 300));
  }
}
process.exit(0);
