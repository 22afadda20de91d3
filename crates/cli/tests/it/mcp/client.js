// An agent on the official TypeScript SDK: list, describe, ask, poll, and do the work again.
const { spawnSync } = require("node:child_process");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

const [keyless, path] = process.argv.slice(2);
const work = 'curl -sS -o body -w "%{http_code}" -H "X: $TOKEN" https://api.allowed.test/';

async function main() {
  const client = new Client({ name: "agent", version: "1" });
  await client.connect(new StdioClientTransport({ command: keyless, args: ["mcp"], env: process.env }));
  const tool = async (name, args = {}) => {
    const result = await client.callTool({ name, arguments: args });
    if (result.isError) throw new Error(JSON.stringify(result));
    return result.structuredContent;
  };
  const names = (await client.listTools()).tools.map((tool) => tool.name);
  if (!names.includes("secrets_poll_status") || names.includes("secrets_get")) throw new Error(names);
  const { secrets } = await tool("secrets_list");
  if (secrets.length !== 1 || secrets[0].path !== path) throw new Error(JSON.stringify(secrets));
  const card = await tool("secrets_describe", { path });
  if (card.capabilities_hint !== "read") throw new Error(JSON.stringify(card));
  const missing = await client.callTool({ name: "secrets_describe", arguments: { path: "team/none/such" } });
  if (JSON.parse(missing.content[0].text).error !== "not-found") throw new Error(JSON.stringify(missing));
  const { request_id } = await tool("secrets_request_provision", { path });
  console.log(request_id);
  let polled;
  do {
    await new Promise((later) => setTimeout(later, 2000));
    polled = await tool("secrets_poll_status", { request_id });
  } while (polled.status.kind === "pending");
  console.log(polled.status.kind);
  await client.close();
  // The work that needed the secret, tried again.
  const env = { ...process.env };
  delete env.KEYLESS_PASSPHRASE_FILE;
  const done = spawnSync(keyless, ["run", "--", "sh", "-c", work], { env, encoding: "utf8" });
  console.log(done.stdout || JSON.stringify(done.stderr));
}

main().catch((error) => { console.log(String(error)); process.exit(1); });
