"""Asks a server by OpenAI's client for Python and prints what it got as JSON.   ask.py ADDRESS SCHEMA"""
import asyncio
import json
import sys

import openai

address, schema = sys.argv[1], json.loads(sys.argv[2])
client = openai.OpenAI(base_url=address, api_key="none")
plain = dict(model="m", prompt="the cat", max_tokens=12, seed=7, temperature=0.9)
talk = dict(model="m", messages=[{"role": "user", "content": "hello"}], max_tokens=8, seed=3, temperature=0.9)
got = {"models": [model.id for model in client.models.list()]}
completion = client.completions.create(**plain)
got["completion"], got["usage"] = completion.choices[0].text, completion.usage.model_dump()
got["completion_stream"] = "".join(piece.choices[0].text for piece in client.completions.create(**plain, stream=True))
scored = client.chat.completions.create(**talk, logprobs=True).choices[0]
got["chat"] = scored.message.content
got["tokens"], got["logprobs"] = [one.token for one in scored.logprobs.content], [one.logprob for one in scored.logprobs.content]
got["chat_stream"] = "".join(piece.choices[0].delta.content or "" for piece in client.chat.completions.create(**talk, stream=True))
shape = {"type": "json_schema", "json_schema": {"name": "animal", "schema": schema, "strict": True}}
got["schema"] = client.chat.completions.create(**{**talk, "max_tokens": 64}, response_format=shape).choices[0].message.content
tools = [{"type": "function", "function": {"name": "animal", "parameters": schema}}]
calling = {**talk, "max_tokens": 80, "tools": tools, "tool_choice": "required"}
called = client.chat.completions.create(**calling).choices[0]
got["called"] = [called.finish_reason, called.message.content, *((one.function.name, one.function.arguments) for one in called.message.tool_calls)]
pieces = [piece.choices[0].delta.tool_calls or [] for piece in client.chat.completions.create(**calling, stream=True)]
got["called_stream"] = [(one.function.name, one.function.arguments) for piece in pieces for one in piece]
history = [*talk["messages"], called.message, {"role": "tool", "tool_call_id": called.message.tool_calls[0].id, "content": "done"}]
got["after_call"] = client.chat.completions.create(**{**talk, "messages": history}).choices[0].message.content
try:
    client.completions.create(**{**plain, "temperature": -99})
except openai.BadRequestError as error:
    got["error"] = {"status": error.status_code, "message": str(error)}


async def many():
    async with openai.AsyncOpenAI(base_url=address, api_key="none") as other:
        answers = await asyncio.gather(*(other.completions.create(**plain) for _ in range(16)))
        return [answer.choices[0].text for answer in answers]


got["many"] = asyncio.run(many())
print(json.dumps(got))
