"""An agent on the official Python SDK: list, describe, ask, poll, and do the work again."""
import asyncio
import json
import os
import subprocess
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

KEYLESS, PATH = sys.argv[1:]
WORK = 'curl -sS -o body -w "%{http_code}" -H "X: $TOKEN" https://api.allowed.test/'


async def main():
    server = StdioServerParameters(command=KEYLESS, args=["mcp"], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()

        async def tool(name, **arguments):
            result = (await session.call_tool(name, arguments)).model_dump(by_alias=True)
            assert not result["isError"], result
            return result["structuredContent"]

        names = [tool.name for tool in (await session.list_tools()).tools]
        assert "secrets_poll_status" in names and "secrets_get" not in names, names
        listed = (await tool("secrets_list"))["secrets"]
        assert [secret["path"] for secret in listed] == [PATH], listed
        card = await tool("secrets_describe", path=PATH)
        assert card["capabilities_hint"] == "read", card
        request_id = (await tool("secrets_request_provision", path=PATH))["request_id"]
        print(request_id, flush=True)
        heard = []

        async def hear(progress, _total, message):
            heard.append((progress, message))

        # Watched, a poll waits for the person and says so; it is answered in time all the same.
        status = "pending"
        while status == "pending":
            poll = await session.call_tool("secrets_poll_status", {"request_id": request_id}, progress_callback=hear)
            status = poll.model_dump(by_alias=True)["structuredContent"]["status"]["kind"]
        assert heard and "waiting for a person" in heard[0][1], heard
        assert heard == sorted(heard) and len(set(heard)) == len(heard), heard
        print(status, flush=True)
    # The work that needed the secret, tried again.
    environment = {name: value for name, value in os.environ.items() if name != "KEYLESS_PASSPHRASE_FILE"}
    command = [KEYLESS, "run", "--", "sh", "-c", WORK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout or json.dumps(done.stderr), flush=True)


asyncio.run(main())
