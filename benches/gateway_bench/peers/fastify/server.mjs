// The work of a metering gateway in Node: Fastify, Redis for the accounting, undici for the
// platform, one process per core. Settings come from the environment: PORT, REDIS_PORT, PLATFORM,
// SPEND_SCRIPT (a path), PROCESSES.
import cluster from "node:cluster";
import { readFileSync } from "node:fs";
import Fastify from "fastify";
import Redis from "ioredis";
import { Pool } from "undici";

const CACHE_MS = 60_000;

// Recently read values.
class Cache {
  #entries = new Map();

  async get(name, read) {
    const entry = this.#entries.get(name);
    if (entry && entry.until > Date.now()) return entry.value;
    const value = await read();
    if (value) this.#entries.set(name, { value, until: Date.now() + CACHE_MS });
    return value;
  }
}

function serve() {
  const redis = new Redis({ port: Number(process.env.REDIS_PORT), host: "127.0.0.1", enableAutoPipelining: true });
  redis.defineCommand("spend", { numberOfKeys: 2, lua: readFileSync(process.env.SPEND_SCRIPT, "utf8") });
  const platform = new Pool(process.env.PLATFORM, { connections: 4096, pipelining: 1 });
  const keys = new Cache();
  const accounts = new Cache();
  const app = Fastify({ logger: false, keepAliveTimeout: 3_600_000 });
  // Bodies are passed on unchanged.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (request, body, done) => done(null, body));

  app.all("/v1/:account/native/*", async (request, reply) => {
    const refuse = (status, code) => reply.code(status).send({ error: { code } });
    const key = request.headers["x-api-key"];
    if (!key) return refuse(401, "missing_key");
    const customer = await keys.get(key, () => redis.get(`key:${key}`));
    if (!customer) return refuse(401, "invalid_key");
    const { account } = request.params;
    const credentials = await accounts.get(`${customer}:${account}`, async () => {
      const found = await redis.hgetall(`account:${customer}:${account}`);
      return found.authorization ? found : null;
    });
    if (!credentials) return refuse(404, "unknown_account");
    const path = request.params["*"];
    const cost = request.method === "GET" ? 1 : 2;
    const books = [`balance:${customer}`, `calls:${customer}`];
    const balance = await redis.spend(...books, cost, key, account, request.method, path);
    if (balance < 0) return refuse(402, "insufficient_credits");
    const query = request.raw.url.indexOf("?");
    const headers = {
      authorization: credentials.authorization,
      "x-user-id": credentials.user,
      "user-agent": credentials.agent,
    };
    if (request.headers["content-type"]) headers["content-type"] = request.headers["content-type"];
    const answer = await platform.request({
      method: request.method,
      path: `/${path}${query < 0 ? "" : request.raw.url.slice(query)}`,
      headers,
      body: request.body,
    });
    reply.code(answer.statusCode);
    for (const name of ["content-type", "content-length"]) {
      if (answer.headers[name]) reply.header(name, answer.headers[name]);
    }
    reply.header("x-credits-cost", cost).header("x-credits-balance", balance);
    return reply.send(answer.body);
  });
  return app.listen({ port: Number(process.env.PORT), host: "127.0.0.1", backlog: 16_384 });
}

if (cluster.isPrimary) {
  for (let started = 0; started < Number(process.env.PROCESSES); started += 1) cluster.fork();
  cluster.on("exit", () => process.exit(1));
  process.on("SIGTERM", () => process.exit(0));
} else {
  await serve();
}
