"""instructor: by a tool and by a schema."""

import instructor
from openai import OpenAI
from pydantic import BaseModel

from cases import MODEL, URL, run, same


class Person(BaseModel):
    name: str
    age: int


def ask(mode: instructor.Mode) -> None:
    client = instructor.from_openai(OpenAI(base_url=f"{URL}/v1", api_key="none"), mode=mode)
    asked = [{"role": "user", "content": "hi"}]
    found = client.chat.completions.create(model=MODEL, response_model=Person, messages=asked)
    same((found.name, found.age), ("Ada", 36))


def tools() -> None:
    ask(instructor.Mode.TOOLS)


def structured_output() -> None:
    ask(instructor.Mode.JSON_SCHEMA)


run(tools, structured_output)
