// Asks a server by OpenAI's client for Node and prints what it got as JSON.   node ask.mjs ADDRESS SCHEMA
import OpenAI from "openai";

const [address, schema] = process.argv.slice(2);
const client = new OpenAI({ baseURL: address, apiKey: "none" });
const plain = { model: "m", prompt: "the cat", max_tokens: 12, seed: 7, temperature: 0.9 };
const talk = { model: "m", messages: [{ role: "user", content: "hello" }], max_tokens: 8, seed: 3, temperature: 0.9 };
const got = { models: [] };
for await (const model of client.models.list()) got.models.push(model.id);
const completion = await client.completions.create(plain);
got.completion = completion.choices[0].text;
got.usage = completion.usage;
got.completion_stream = "";
for await (const piece of await client.completions.create({ ...plain, stream: true })) got.completion_stream += piece.choices[0].text;
const scored = (await client.chat.completions.create({ ...talk, logprobs: true })).choices[0];
got.chat = scored.message.content;
got.tokens = scored.logprobs.content.map((one) => one.token);
got.logprobs = scored.logprobs.content.map((one) => one.logprob);
got.chat_stream = "";
for await (const piece of await client.chat.completions.create({ ...talk, stream: true })) got.chat_stream += piece.choices[0].delta.content ?? "";
const shape = { type: "json_schema", json_schema: { name: "animal", schema: JSON.parse(schema), strict: true } };
got.schema = (await client.chat.completions.create({ ...talk, max_tokens: 64, response_format: shape })).choices[0].message.content;
const tools = [{ type: "function", function: { name: "animal", parameters: JSON.parse(schema) } }];
const calling = { ...talk, max_tokens: 80, tools, tool_choice: "required" };
const called = (await client.chat.completions.create(calling)).choices[0];
const calls = (list) => (list ?? []).map((one) => [one.function.name, one.function.arguments]);
got.called = [called.finish_reason, called.message.content, ...calls(called.message.tool_calls)];
got.called_stream = [];
for await (const piece of await client.chat.completions.create({ ...calling, stream: true })) got.called_stream.push(...calls(piece.choices[0].delta.tool_calls));
const history = [...talk.messages, called.message, { role: "tool", tool_call_id: called.message.tool_calls[0].id, content: "done" }];
got.after_call = (await client.chat.completions.create({ ...talk, messages: history })).choices[0].message.content;
try {
  await client.completions.create({ ...plain, temperature: -99 });
} catch (error) {
  got.error = { status: error.status, message: error.message };
}
got.many = await Promise.all(Array.from({ length: 16 }, async () => (await client.completions.create(plain)).choices[0].text));
console.log(JSON.stringify(got));
