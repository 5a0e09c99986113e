"""Asks a server by LangChain, as agents do, and prints what it got as JSON.   agent.py ADDRESS"""
import json
import sys
from typing import Literal

from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Animal(BaseModel):
    name: Literal["cat", "dog"]
    age: int


model = ChatOpenAI(base_url=sys.argv[1], api_key="none", model="m", max_tokens=8, seed=3, temperature=0.9)
got = {"said": model.invoke("hello").content, "stream": "".join(piece.content for piece in model.stream("hello"))}
shaped = ChatOpenAI(base_url=sys.argv[1], api_key="none", model="m", max_tokens=64, seed=3).with_structured_output(Animal, method="json_schema")
calling = ChatOpenAI(base_url=sys.argv[1], api_key="none", model="m", max_tokens=80, seed=3).bind_tools([Animal], tool_choice="required")
got["called"] = [(call["name"], call["args"]) for call in calling.invoke("hello").tool_calls]
got["shaped"] = shaped.invoke("hello").model_dump()
print(json.dumps(got))
